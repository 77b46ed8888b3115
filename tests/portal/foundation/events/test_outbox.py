"""Invariants 3 and 9: a nudge is committed with its change and survives the broker; events are numbered, a gap shows."""

import asyncio
import json

import pytest
import redis
from asgiref.testing import ApplicationCommunicator
from celery import current_app
from django.db import transaction

from portal.foundation.events import relay
from portal.foundation.events.models import OutboxMessage
from portal.foundation.events.services import page_event, plan_nudge
from portal.pages.dashboard.shell.consumers import LiveConsumer
from portal.work.jobs.models import Job
from portal.work.jobs.services import submission
from portal.work.jobs.services.reconciling import reconcile
from tests.portal import given


def celery_redis():
    """The database of the broker where Celery's queue lies, beside the numbers'."""
    return current_app.connection_for_write().channel().client


def queue_length(broker):
    return celery_redis().llen("berth")


def topics():
    return set(OutboxMessage.objects.values_list("topic", flat=True))


class TestOutbox:
    def test_job_and_nudge_are_one_transaction(self, cluster):
        class Stop(Exception):
            pass

        with pytest.raises(Stop), transaction.atomic():
            cluster.submit()
            assert topics() == {"plan", "event"}
            raise Stop
        assert (Job.objects.count(), OutboxMessage.objects.count()) == (0, 0)

    def test_the_job_is_committed_when_submit_returns(self, shared_cluster):
        job = shared_cluster.submit()
        seen = given.race(lambda: list(Job.objects.values_list("pk", flat=True)))  # another connection
        assert seen == [[job.pk]]

    def test_with_the_broker_away_nothing_is_refused_and_nothing_lost(self, shared_cluster, broker_settings):
        broker_settings.kill()
        try:
            shared_cluster.submit()
            rows = OutboxMessage.objects.count()
            with pytest.raises((redis.exceptions.RedisError, OSError)):
                reconcile()
            assert OutboxMessage.objects.count() == rows
        finally:
            broker_settings.start()
        assert reconcile()["outbox"] == rows
        assert queue_length(broker_settings) == 1
        assert not OutboxMessage.objects.exists()

    def test_without_the_outbox_row_nobody_is_told(self, shared_cluster, broker_settings, monkeypatch):
        monkeypatch.setattr(submission, "plan_nudge", lambda: None)
        shared_cluster.submit()
        reconcile()
        assert queue_length(broker_settings) == 0

    def test_a_hundred_nudges_are_one_planning(self, shared_cluster, broker_settings):
        for _ in range(100):
            plan_nudge()
        assert relay.drain() == 100
        assert queue_length(broker_settings) == 1
        message = json.loads(celery_redis().lindex("berth", 0))
        assert message["headers"]["task"] == "rounds.plan"

    def test_two_relays_at_once_lose_nothing(self, shared_cluster, broker_settings):
        for n in range(50):
            page_event(stream=f"job:{n}", topic="job")
        results = given.race(relay.drain, relay.drain)
        assert not [each for each in results if isinstance(each, BaseException)], results
        numbers = redis.Redis.from_url(broker_settings.url).mget([relay.number_key(f"job:{n}") for n in range(50)])
        assert all(numbers)
        assert not OutboxMessage.objects.exists()


def number(broker, stream="cluster"):
    return int(redis.Redis.from_url(broker.url).get(relay.number_key(stream)))


class Page:
    """A browser's end of the live socket."""

    def __init__(self, user):
        scope = {"type": "websocket", "path": "/ws/live", "headers": [], "subprotocols": [], "user": user}
        self.socket = ApplicationCommunicator(LiveConsumer.as_asgi(), scope)

    async def connect(self):
        await self.socket.send_input({"type": "websocket.connect"})
        assert (await self.socket.receive_output(5))["type"] == "websocket.accept"

    async def send_json_to(self, content):
        await self.socket.send_input({"type": "websocket.receive", "text": json.dumps(content)})

    async def receive_json_from(self):
        return json.loads((await self.socket.receive_output(5))["text"])

    async def disconnect(self):
        await self.socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.socket.wait(5)


class TestNumbers:
    """A real socket on a real Redis. What a page must see: the next number is not the last one plus one."""

    def follow(self, user, act):
        async def run():
            page = Page(user)
            await page.connect()
            await page.send_json_to({"type": "follow", "streams": ["cluster"]})
            first = await page.receive_json_from()
            got = await act(page)
            await page.disconnect()
            return first, got

        return asyncio.run(run())

    async def emit(self, count=1):
        def send():
            publisher = relay.Publisher()
            for _ in range(count):
                publisher.event("cluster", {"topic": "job"})
            publisher.close()

        await asyncio.to_thread(send)

    def test_events_count_up_by_one_and_the_heartbeat_agrees(self, shared_cluster, broker_settings):
        async def act(page):
            await self.emit(3)
            got = [await page.receive_json_from() for _ in range(3)]
            await page.send_json_to({"type": "follow", "streams": ["cluster"]})
            return [*got, await page.receive_json_from()]

        _, (first, second, third, heartbeat) = self.follow(shared_cluster.owner, act)
        assert [each["number"] - first["number"] for each in (first, second, third)] == [0, 1, 2]
        assert heartbeat["numbers"] == {"cluster": third["number"]}

    def test_a_flushall_is_a_gap_whatever_the_page_saw_last(self, shared_cluster, broker_settings):
        async def act(page):
            await self.emit()
            before = await page.receive_json_from()
            redis.Redis.from_url(broker_settings.url).flushall()
            await self.emit()
            return before, await page.receive_json_from()

        _, (before, after) = self.follow(shared_cluster.owner, act)
        assert after["number"] != before["number"] + 1
        assert after["number"] > before["number"] or after["number"] < before["number"]

    def test_counting_from_one_again_would_hide_a_gap(self, broker_settings):
        client = redis.Redis.from_url(broker_settings.url)
        last = client.incr("plain")
        client.flushall()
        client.incr("plain")  # an event nobody received
        assert client.incr("plain") == last + 1, "the page would take it for the next one"

    def test_a_missed_event_shows_in_the_next_number(self, shared_cluster, broker_settings):
        async def act(page):
            await self.emit()
            first = await page.receive_json_from()
            redis.Redis.from_url(broker_settings.url).incr(relay.number_key("cluster"))  # one that never arrived
            await self.emit()
            return first, await page.receive_json_from()

        _, (first, second) = self.follow(shared_cluster.owner, act)
        assert second["number"] == first["number"] + 2

    def test_a_foreign_jobs_stream_is_refused(self, shared_cluster, broker_settings):
        job = shared_cluster.submit()
        outsider = given.member("otto", given.Tenant.objects.create(name="speech-lab"))

        async def act(page):
            await page.send_json_to({"type": "follow", "streams": [f"job:{job.pk}"]})
            return await page.receive_json_from()

        assert self.follow(outsider, act)[1]["code"] == "not_found"


class TestLive:
    """Events that are not stored: nothing numbers them before they are published, so that one that is dropped shows nowhere."""

    @pytest.fixture(autouse=True)
    def _nothing_waits(self):
        relay._live.clear()
        yield
        relay._live.clear()

    def test_a_burst_of_one_job_is_one_event_and_drops_nobody_elses(self):
        relay.live_put(stream="job:1", payload={"topic": "speed", "id": 1})
        for _ in range(3 * relay.LIVE_LIMIT):
            relay.live_put(stream="job:2", payload={"topic": "log", "id": 2})
        assert list(relay._live.values()) == [
            ("job:1", {"topic": "speed", "id": 1}),
            ("job:2", {"topic": "log", "id": 2}),
        ]

    def test_beyond_the_limit_the_oldest_goes_and_the_log_says_so(self, monkeypatch, caplog):
        monkeypatch.setattr(relay, "LIVE_LIMIT", 2)
        for number in (1, 2, 3):
            relay.live_put(stream=f"job:{number}", payload={"topic": "log"})
        assert [stream for stream, _ in relay._live.values()] == ["job:2", "job:3"]
        assert "one of job:1 is dropped" in caplog.text
