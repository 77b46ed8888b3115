"""What the cluster shows of one tenant's jobs to another: that there are some, and nothing else (invariant 8)."""

import time

import pytest

from portal.cluster.models import NodeEvent
from portal.foundation.events.models import OutboxMessage
from portal.planning.rounds.models import Planning
from portal.work.jobs.models import Job
from tests.portal import given
from tests.portal.access.routes import filled, path_of
from tests.portal.access.rows import PAGES, REST, _get
from tests.portal.access.world import CASTS, SECRETS

pytestmark = pytest.mark.django_db

ANOTHERS = "another tenant"
SHOW_JOBS = {
    "queue",
    "node-detail",
    "cluster",
    "cluster-fragment:nodes",
    "cluster-rows",
    "engine-detail",
    "engine-fragment:now",
    "node-fragment:now",
    "node-fragment:gpus",
    "node-fragment:card",
    "planning-detail",
    "api-planning",
}
"""Where somebody else's job takes up a place, so that the place must be filled."""
ECHOES = {"q=zebra", "q={running}"}
WHOLE = [row for row in [*PAGES, *REST] if row.expected[CASTS.index("outsider")] == 200 and row.query not in ECHOES]
MORE = [
    _get("search", WHOLE[0].expected, query="q=name"),
    _get("search", WHOLE[0].expected, query="q=lab"),
    _get("job-list", WHOLE[0].expected, query="sort=tenant"),
]


@pytest.fixture
def world(world):
    """As after an hour of life: telemetry of its processes, a planning that failed over it, a fault that names it."""
    attempt = world.names["attempt"]
    samples = {"utilisation": [50.0], "memory_mib": [1000.0], "power_w": [100.0]}
    batch = {
        "boot_id": "boot-big",
        "start": time.time(),
        "period_s": 1.0,
        "count": 1,
        "gpus": {"0": samples},
        "host": {"cpu_cores": [1.0], "memory_mib": [5.0]},
        "attempts": {str(attempt): {"cpu_cores": [1.0], "memory_mib": [5.0]}},
    }
    given.measured(node=world.nodes["big"], batch=batch)
    world.nodes["big"].refresh_from_db()
    job_id = world.names["zebra-name"]
    for planning in Planning.objects.all():
        planning.metrics["faults"] = [{"subject": "job", "key": job_id, "detail": f"job {job_id} zebra-name is odd"}]
        planning.error = f"ValueError: job {job_id} zebra-name"
        planning.save()
    return world


def secrets_in(text, world):
    numbers = Job.objects.filter(tenant__name="zebra-lab").values_list("pk", flat=True)
    people = [world.users[cast].username for cast in ("owner", "teammate")]
    words = [*SECRETS, *people, "zebra", *map(str, numbers)]
    return sorted({word for word in words if word.lower() in text.lower()})


def text_of(world, cast, row):
    answer = world.ask(cast, row.door, row.method, path_of(row, world.names), filled(row.body, world.names))
    return b"".join(answer.streaming_content if answer.streaming else [answer.content]).decode(errors="replace")


def name_of(row):
    value = row.args.get("fragment") or (
        row.args.get("name") if row.route in {"overview-fragment", "cluster-fragment"} else None
    )
    return f"{row.route}:{value}" if value else row.route


def of_whom(row):
    """Whether it is an overview of the reader's own jobs, which names nobody else's, or of what the reader chose last."""
    return (row.route == "overview" and row.query != "view=cluster") or row.query == "whose=mine"


def test_an_outsider_finds_nothing_of_another_tenants(world):
    assert len(WHOLE) > 40
    found = {}
    for row in [*WHOLE, *MORE]:
        text = text_of(world, "outsider", row)
        if "zebra-lab" in str(row.body):  # a form that names it: what was sent comes back
            continue
        if words := secrets_in(text, world):
            found[path_of(row, world.names)] = words
        if not of_whom(row) and row.route not in {"help-guide", "api-schema"}:  # which speak of it
            assert (ANOTHERS in text) == (name_of(row) in SHOW_JOBS), path_of(row, world.names)
    assert found == {}


def test_the_operator_and_the_owner_see_it_in_the_same_places(world):
    for row in WHOLE:
        if name_of(row) in SHOW_JOBS and not of_whom(row):
            for cast in ("operator", "owner", "teammate"):
                text = text_of(world, cast, row)
                assert "zebra-name" in text, (cast, row)
                assert any(word.isdigit() for word in secrets_in(text, world)), (cast, row)
            assert ANOTHERS not in text_of(world, "operator", row)


def test_nobody_anonymous_finds_a_name_on_what_is_open_to_all(world):
    for row in [*PAGES, *REST]:
        if row.method == "GET" and row.expected[CASTS.index("anonymous")] in {200, 503}:
            assert secrets_in(text_of(world, "anonymous", row), world) == [], row
    assert secrets_in(text_of(world, "operator", next(row for row in REST if row.route == "metrics")), world) == []


def test_the_clusters_stream_carries_no_ids_and_nodes_events_no_jobs(world):
    events = OutboxMessage.objects.filter(topic="event", stream="cluster")
    assert events.exists()
    assert {frozenset(payload) for payload in events.values_list("payload", flat=True)} == {frozenset({"topic"})}
    told = " ".join(NodeEvent.objects.values_list("detail", flat=True))
    assert secrets_in(told, world) == []
