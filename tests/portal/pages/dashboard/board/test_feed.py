"""The board says of each GPU what its cell says, and reaches its followers once a second, not once a node."""

import json
from datetime import timedelta
from itertools import chain

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import Gpu, GpuType, Node
from portal.cluster.services.operating import node_describe, node_drain
from portal.foundation.events import following, relay, shared
from portal.foundation.events.relay import number_key
from portal.foundation.events.shared import client
from portal.pages.dashboard.board import feed, ticker
from portal.pages.dashboard.parts.gpus import gpu_groups
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.work.jobs.models import GpuAllocation
from tests.portal import given
from tests.portal.given import node_make, statements
from tests.portal.pages.dashboard.cluster_world import World, people


@pytest.fixture
def world():
    world = people(World())
    for name in ("n1", "n2", "n3"):
        world.node(name)
    world.node("plain", gpus=0, cores=16)
    world.submit("owner", "secret-name", gpus=[4], expected_duration_s=3600)
    world.submit("outsider", "other", gpus=[2], expected_duration_s=3600)
    world.run()
    began = timezone.now() - timedelta(minutes=12)
    GpuAllocation.objects.update(created_at=began)
    Node.objects.update(registered_at=timezone.now() - timedelta(hours=5))
    now = timezone.now().timestamp()
    live = {"at": now, "gpus": {str(i): {"utilisation": 10.0 * i, "memory_mib": 8192 * i} for i in range(8)}}
    Node.objects.filter(name="n1").update(live=live)
    node_drain(node=Node.objects.get(name="n3"), actor=world.users["operator"], reason="dust")
    return world


def percent(share):
    return 255 if share is None else round(share)


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [1, 6, 24])
def test_the_board_says_what_the_cells_say(world, settings, hours):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    board, snapshot = feed.board_now(hours), Snapshot(world.users["operator"], hours=hours)
    at = 0
    assert board["nodes"] == [node.name for node in snapshot.nodes]
    states = {"free": 1, "out": 3}
    for place, node in enumerate(snapshot.nodes):
        for cell in [each for group in gpu_groups(node, snapshot)["groups"] for each in group["cells"]]:
            use = node.live_gpus.get(str(cell["index"]), {}).get("utilisation")
            assert board["use"][at] == percent(use)
            assert board["state"][at] == (3 if node.health != "up" else states.get(cell["look"], 0))
            assert use is None or cell["look"] in states or cell["title"].endswith(f"busy {use:.0f}\u00a0%")
            at += 1
        assert board["gpus"][place] == len(node.gpus_present)
    assert at == len(board["active"]) == len(board["state"])
    group = next(each for each in board["groups"]["type"] if each["title"] == "A100")
    assert (group["gpus"], group["held"], group["idle"], group["up"]) == (24, 6, 10, 2)
    assert sorted(chain.from_iterable(board["order"]["type"])) == list(range(4))
    assert "secret-name" not in json.dumps(board)


@pytest.mark.django_db
def test_groups_by_rack_once_an_operator_has_told_one(world, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert list(feed.board_now(1)["groups"]) == ["type"]
    node_describe(node=Node.objects.get(name="n2"), actor=world.users["operator"], rack="r7", label="")
    groups = feed.board_now(1)["groups"]["rack"]
    assert [(each["title"], each["nodes"]) for each in groups] == [("r7", 1), ("no rack given", 3)]


@pytest.mark.django_db
def test_short_counts_jobs_that_no_idle_block_of_the_group_holds(world, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    node_make("v1", gpus=2, gpu_type=GpuType.objects.create(name="V100"))
    world.submit("owner", "large", gpus=[16], gpu_types=["A100"], expected_duration_s=3600)
    world.run()
    by_type = {each["title"]: each for each in feed.board_now(1)["groups"]["type"]}
    assert (by_type["A100"]["short"], by_type["V100"]["short"]) == (1, 0)


# ---- once a second for all --------------------------------------------------------------------------------------------


@pytest.fixture
def broker(settings, broker_settings):
    client.cache_clear()
    relay._live.clear()
    following.nodes_measured()
    return redis.Redis.from_url(settings.REDIS_URL)


def said():
    """The message that the relay would send now."""
    found = list(relay._live.values())
    relay._live.clear()
    return found


def later(broker, hours=1):
    """Let the stored board and values be a second older."""
    for key in (f"berth:board:{hours}", "berth:shared:facts", "berth:shared:demand"):
        if stored := broker.get(key):
            entry = json.loads(stored)
            broker.set(key, json.dumps(entry | {"at": entry["at"] - 1.5, "took_s": 0}))


def batch(start):
    return {
        "start": start,
        "period_s": 1.0,
        "count": 1,
        "boot_id": "b",
        "host": {},
        "attempts": {},
        "gpus": {str(i): {"utilisation": [77.0], "memory_mib": [100]} for i in range(8)},
    }


@pytest.mark.django_db
def test_telemetry_of_all_nodes_is_one_event_a_second_for_those_who_follow(world, broker):
    broker.zadd(following.KEY, following.marks(["board:1", "node:n2"]))
    first = feed.board_now(1)
    for node in Node.objects.all():
        given.measured(node=node, batch=batch(timezone.now().timestamp()))
    assert said() == [], "a node's message tells nobody"
    ticker.once()
    assert [stream for stream, _ in said()] == ["node:n2"], "the board is not a second old yet"
    later(broker)
    ticker.once()
    ((stream, payload),) = said()
    assert (stream, payload["topic"], payload["from"], payload["to"]) == (
        "board:1",
        "board",
        first["version"],
        first["version"] + 1,
    )
    assert payload["change"]["use"][1::2] == [77] * 24
    assert broker.get(number_key("cluster")) is None, "the stream that every page follows is not touched"
    later(broker)
    ticker.once()
    assert said() == [], "nothing changed"


@pytest.mark.django_db
def test_nobody_looks_and_nothing_is_computed(world, broker):
    given.measured(node=Node.objects.first(), batch=batch(timezone.now().timestamp()))
    with statements(0):
        ticker.once()
    assert said() == []


@pytest.mark.django_db
def test_another_shape_is_told_as_such(world, broker, settings):
    before = feed.board_now(1)
    Gpu.objects.filter(node__name="n2", index=7).update(missing_since=timezone.now())
    later(broker)
    feed.tick(client(settings.REDIS_URL), 1)
    ((_, payload),) = said()
    assert (payload["change"], payload["from"]) == (None, before["version"])


@pytest.mark.django_db
def test_readers_share_what_they_may_see_and_no_more(world, broker, monkeypatch):
    monkeypatch.setattr(shared, "SHARE_OF_TIME", 10_000)  # however slow this machine is
    for reader in ("owner", "outsider", "teammate", "operator"):
        page = world.get(reader, "/cluster/fragments/nodes").content.decode()
        assert reader != "outsider" or "secret-name" not in page
    assert "secret-name" in world.get("operator", "/fragments/overview/nodes").content.decode()
    audiences = {key.decode().rpartition(":")[2] for key in broker.keys("berth:shared:html:overview:nodes:*")} - {
        "lock"
    }
    assert audiences == {"operator"}
    other = given.operator("otto")
    browser = type(world.client("anonymous"))()
    browser.force_login(other, backend="django.contrib.auth.backends.ModelBackend")
    with statements(2):  # session, user
        browser.get("/fragments/overview/nodes")


@pytest.mark.django_db
def test_a_page_older_than_the_last_event_says_so(world, broker):
    world.get("operator", "/fragments/overview/tiles")
    broker.incr(number_key("cluster"))
    client_ = world.client("operator")
    answer = client_.get("/fragments/overview/tiles")
    assert answer.headers.get("Berth-Late") == "1"
    page = client_.get("/?view=cluster").content.decode()
    assert "&quot;cluster&quot;:0" in page, "the socket's first heartbeat then shows the gap"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "most"),
    [("/?view=cluster", 12), ("/cluster/", 15), ("/fragments/overview/tiles", 3), ("/cluster/board", 3)],
)
def test_what_is_shared_costs_the_next_reader_its_sign_in_and_frame_only(world, broker, path, most, monkeypatch):
    monkeypatch.setattr(shared, "SHARE_OF_TIME", 10_000)  # however slow this machine is
    first, second = (
        world.client(each)
        for each in (("operator",) * 2 if "over" in path or "view" in path else ("owner", "teammate"))
    )
    assert first.get(path).status_code == 200
    with CaptureQueriesContext(connection) as queries:
        assert second.get(path).status_code == 200
    assert len(queries) <= most, [each["sql"][:100] for each in queries]
