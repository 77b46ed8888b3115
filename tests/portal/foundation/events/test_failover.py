"""Redis fails over: the server of before becomes a replica, which refuses to write, and its address leads to another now."""

import asyncio
import contextlib
import os
import secrets
import subprocess
import sys
import time

import pytest
import redis
from asgiref.sync import async_to_sync
from celery.beat import SchedulingError
from django_celery_beat.models import PeriodicTask

from portal.foundation.beat import LivingScheduler
from portal.foundation.celery import app
from portal.foundation.events import following, relay
from portal.foundation.events.models import OutboxMessage
from portal.foundation.events.shared import client
from portal.foundation.layout import SOURCE, Layout, write_private
from portal.launch import broker
from portal.launch.programs import PLANNING, WORKER
from portal.pages.dashboard.board.feed import board_now
from tests.portal import given
from tests.portal.foundation.events.test_outbox import Page
from tests.servers import BrokerServer, private_directory

pytestmark = pytest.mark.django_db(transaction=True)


def server(directory):
    layout = Layout.at(directory)
    layout.prepare()
    write_private(layout.redis / "password", "the-same")
    made = BrokerServer(layout, broker.server_configure(layout))
    made.start()
    return made


class Failover:
    """Two servers behind one address. `over` makes the first a replica, and lets the address lead to the second."""

    def __init__(self, directory):
        self.first, self.second = server(directory / "first"), server(directory / "second")
        self.process = self.first.process
        self.address = directory / "broker.sock"
        self.address.symlink_to(self.first.server.socket_path)
        self.url = self.first.url.replace(str(self.first.server.socket_path), str(self.address))

    def over(self):
        with contextlib.closing(redis.Redis.from_url(self.first.url)) as first:
            first.execute_command("REPLICAOF", "127.0.0.1", "1")
        self.address.unlink()
        self.address.symlink_to(self.second.server.socket_path)

    def queued(self):
        """How many tasks wait at the second server."""
        with contextlib.closing(app.connection_for_write()) as connection:
            return connection.default_channel._size("berth")


@pytest.fixture
def broker_server():
    with private_directory() as directory:
        made = Failover(directory)
        yield made
        made.first.kill()
        made.second.kill()


@pytest.fixture
def failover(broker_settings):
    return broker_settings


def test_shared_values_and_the_board_go_on(failover):
    board_now(1)
    failover.over()
    assert client(failover.url).set("written", 1)
    assert board_now(1)["version"] > 0, "0: made only for this answer"


def test_a_page_that_is_open_is_told_on(failover):
    user = given.operator()

    @async_to_sync
    async def answers():
        page, followed = Page(user), {"type": "follow", "streams": ["board:1"]}
        await page.connect()
        await page.send_json_to(followed)
        first = await page.receive_json_from()
        await asyncio.to_thread(failover.over)
        await page.send_json_to(followed)
        second = await page.receive_json_from()
        await page.disconnect()
        return first["type"], second["type"]

    assert answers() == ("heartbeat", "heartbeat")
    with contextlib.closing(redis.Redis.from_url(failover.second.url)) as second:
        assert following.followed(second) == {"board:1"}


def test_the_outbox_is_sent_to_the_server_of_now_after_one_refusal(failover):
    publisher = relay.Publisher()
    OutboxMessage.objects.create(topic="event", stream="cluster")
    relay.drain(publisher)
    failover.over()
    for topic in ("event", "plan"):
        OutboxMessage.objects.create(topic=topic, stream="cluster")
    with pytest.raises(redis.RedisError):
        relay.drain(publisher)
    publisher.reset()  # as the thread does
    relay.drain(publisher)
    publisher.close()
    assert failover.queued() == 1


def test_beat_sends_to_the_server_of_now_after_one_refusal(failover):
    beat = LivingScheduler(app=app)
    entry = beat.schedule[PeriodicTask.objects.filter(task="rounds.plan").get().name]
    beat.apply_async(entry, producer=beat.producer, advance=False)
    failover.over()
    with pytest.raises(SchedulingError):
        beat.apply_async(entry, producer=beat.producer, advance=False)
    beat.apply_async(entry, producer=beat.producer, advance=False)
    assert failover.queued() == 1


def test_a_worker_ends_and_leaves_it_to_the_supervisor_to_start_it_again(failover, tmp_path):
    environment = {
        "REDIS_URL": failover.url,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "BERTH_DATA_DIR": str(tmp_path),
    }
    (tmp_path / "secret-key").write_text(secrets.token_urlsafe(64))
    argv = [sys.executable, "-m", *PLANNING, *WORKER, "--pool", "solo"]
    with (tmp_path / "log").open("wb") as log, redis.Redis.from_url(failover.first.url) as first:
        worker = subprocess.Popen(argv, cwd=SOURCE, env=os.environ | environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 120
            while not any(each["cmd"] == "brpop" for each in first.client_list()):
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.1)
            failover.over()
            assert worker.wait(timeout=120) != 0
        finally:
            worker.kill()
            worker.wait()
