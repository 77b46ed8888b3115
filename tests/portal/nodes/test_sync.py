"""The agents' long poll: it answers at once, on a wake, or by looking; and an open poll costs no thread."""

import asyncio
import json
import threading
import time
from datetime import timedelta

import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError, connection
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.contact import node_touch
from portal.foundation.events import relay
from portal.foundation.events.services import node_wake
from portal.nodes import sync
from portal.people.tenants.services import secret_digest

TOKEN = "berthnode_test"


@pytest.fixture
def node(shared_cluster):
    Node.objects.update(token_digest=secret_digest(TOKEN))
    shared_cluster.node.refresh_from_db()
    return shared_cluster.node


def poll(query, *, token=TOKEN, method="GET"):
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"type": "http", "method": method, "path": "/sync", "query_string": query.encode(), "headers": headers}
    return ApplicationCommunicator(sync.sync_application, scope)


async def answer(app, limit_s=20):
    start = await app.receive_output(limit_s)
    body = await app.receive_output(limit_s)
    return start["status"], json.loads(body["body"])


def ask(query, **more):
    async def run():
        began = time.monotonic()
        status, body = await answer(poll(query, **more))
        return status, body, time.monotonic() - began

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("revision=x", "revision"),
        ("revision=-2", "revision"),
        ("wait=nan", "wait"),
        ("wait=-1", "wait"),
        ("revision=1.5", "revision"),
    ],
)
def test_bad_numbers(node, query, field):
    status, body, _ = ask(query)
    assert (status, body["error"]["code"], body["error"]["field"]) == (400, "invalid", field)


@pytest.mark.parametrize("token", [None, "wrong", "berthnode_t\u00e9st"])
def test_bad_token(node, token):
    status, body, _ = ask("revision=0", token=token)
    assert (status, body["error"]["code"]) == (401, "bad_token")


def test_a_revoked_token(node):
    Node.objects.update(token_revoked_at="2026-01-01T00:00Z")
    assert ask("revision=0")[0] == 401


def test_other_methods(node):
    assert ask("", method="POST")[0] == 405


def test_another_revision_answers_at_once(node, broker_settings):
    status, body, took_s = ask(f"revision={node.revision + 1}&wait=20")
    assert (status, body) == (200, {"revision": node.revision, "attempts": [], "heartbeat_s": 1.0, "environments": {}})
    assert took_s < 15


def test_the_same_revision_waits_its_time(node, broker_settings):
    _, body, took_s = ask(f"revision={node.revision}&wait=1")
    assert body["revision"] == node.revision
    assert 0.9 <= took_s < 15


def changed_after(node, *, wake):
    """How long a poll took to answer after its node's list changed."""

    async def run():
        app = poll(f"revision={node.revision}&wait=20")
        reading = asyncio.create_task(answer(app))
        await asyncio.sleep(1.0)
        assert not reading.done()

        def change():
            node_touch(node_id=node.pk)
            if wake:
                node_wake(node_id=node.pk)
                relay.drain()

        await asyncio.to_thread(change)
        began = time.monotonic()
        status, body = await reading
        assert (status, body["revision"]) == (200, node.revision + 1)
        return time.monotonic() - began

    return asyncio.run(run())


def test_a_wake_is_answered_before_the_next_look(node, broker_settings, monkeypatch):
    monkeypatch.setattr(sync, "LOOK_S", 15.0)
    assert changed_after(node, wake=True) < 10.0


def test_a_lost_wake_is_found_by_looking(node, broker_settings):
    assert changed_after(node, wake=False) < 15.0


def test_without_redis_it_looks_every_second(node, broker_settings, monkeypatch):
    monkeypatch.setattr(sync, "LOOK_S", 15.0)
    broker_settings.kill()
    try:
        assert changed_after(node, wake=False) < 10.0
    finally:
        broker_settings.start()


def test_a_hundred_polls_cost_no_thread_each(node, broker_settings):
    async def run():
        before = threading.active_count()
        apps = [poll(f"revision={node.revision}&wait=3") for _ in range(100)]
        reading = [asyncio.create_task(answer(app)) for app in apps]
        await asyncio.sleep(1.5)
        during = threading.active_count()
        answers = await asyncio.gather(*reading)
        return during - before, {status for status, _ in answers}

    extra, statuses = asyncio.run(run())
    assert statuses == {200}
    assert extra < 20, extra


def test_an_agent_that_hangs_up_ends_its_poll(node, broker_settings):
    async def run():
        app = poll(f"revision={node.revision}&wait=20")
        reading = asyncio.create_task(answer(app))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await app.send_input({"type": "http.disconnect"})
        await reading
        return time.monotonic() - began

    assert asyncio.run(run()) < 2.0


@pytest.fixture
def no_room(node):
    """Each change of a node's row is refused as on a full disk."""
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's trigger")
    Node.objects.update(last_contact_at=timezone.now() - timedelta(minutes=1))
    with connection.cursor() as cursor:
        says = "SELECT RAISE(ABORT, 'database or disk is full')"
        cursor.execute(f"CREATE TRIGGER no_room BEFORE UPDATE ON cluster_node BEGIN {says}; END")
        yield
        cursor.execute("DROP TRIGGER no_room")


def test_what_should_run_is_told_without_room_for_the_contact(node, no_room):
    """A stop order must reach the node; only that it called cannot be noted."""
    status, body, _ = ask("revision=-1&wait=0")
    assert (status, body["attempts"]) == (200, [])


def test_a_database_that_does_not_answer_is_no_crash(node, monkeypatch):
    def gone(**_):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr("portal.nodes.sync.node_seen", gone)
    status, body, _ = ask("revision=-1&wait=0")
    assert (status, body["error"]["code"]) == (503, "unavailable")
