"""Messages of a broken or hostile agent: refused by the field's name, never stored, never a 5xx."""

import json
import time

import pytest
from django.test import Client
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from portal.cluster.models import Gpu, Node, TelemetryFrame
from portal.people.tenants.services import secret_digest
from scheduler.intake.validation import COUNT_MOST
from tests.portal import given

pytestmark = pytest.mark.django_db
SECRET = "berthnode_test"
HUGE = 10**400


@pytest.fixture
def send(cluster):
    """Call the agents' door as node n1; (status, body)."""
    Node.objects.filter(pk=cluster.node.pk).update(token_digest=secret_digest(SECRET), boot_id="boot-1")
    cluster.node.refresh_from_db()

    def call(path, body):
        answer = Client(raise_request_exception=True).post(
            f"/api/agent/v1/{path}",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {SECRET}"},
        )
        return answer.status_code, answer.json() if answer.content else None

    call.cluster = cluster
    return call


def telemetry(**more):
    series = {"utilisation": [10.0, 20.0], "memory_mib": [1.0, None], "power_w": None}
    return {
        "boot_id": "boot-1",
        "start": time.time() - 2,
        "period_s": 1.0,
        "count": 2,
        "gpus": {"0": series},
        "host": {"cpu_cores": [1.0, 2.0]},
        "attempts": {},
    } | more


def test_good_telemetry_is_taken(send):
    assert send("telemetry", telemetry()) == (204, None)
    assert TelemetryFrame.objects.count() == 1


BAD_TELEMETRY = {
    "negative": ({"gpus": {"0": {"utilisation": [-1.0, 2.0]}}}, "gpus.0.utilisation"),
    "over 100 %": ({"gpus": {"0": {"utilisation": [101.0, 2.0]}}}, "gpus.0.utilisation"),
    "absurd memory": ({"gpus": {"0": {"memory_mib": [1e300, 2.0]}}}, "gpus.0.memory_mib"),
    "absurd power": ({"gpus": {"0": {"power_w": [1e9, 2.0]}}}, "gpus.0.power_w"),
    "another length": ({"gpus": {"0": {"utilisation": [1.0]}}}, "gpus.0.utilisation"),
    "another measure": ({"gpus": {"0": {"colour": [1.0, 2.0]}}}, "gpus.0.colour"),
    "no index": ({"gpus": {"x": {"utilisation": [1.0, 2.0]}}}, "gpus.x"),
    "an index beyond": ({"gpus": {"4096": {"utilisation": [1.0, 2.0]}}}, "gpus.4096"),
    "host negative": ({"host": {"cpu_cores": [-1.0, 2.0]}}, "host.cpu_cores"),
    "attempt negative": ({"attempts": {"1": {"memory_mib": [-1.0, 2.0]}}}, "attempts.1.memory_mib"),
    "NaN as text": ({"start": "NaN"}, "start"),
    "a number as text": ({"start": "1"}, "start"),
    "true": ({"start": True}, "start"),
    "400 digits": ({"start": HUGE}, "start"),
    "400 digits in a series": ({"host": {"cpu_cores": [HUGE, 1.0]}}, None),
    "text in a series": ({"host": {"cpu_cores": ["1", 1.0]}}, None),
    "count 0": ({"count": 0}, "count"),
    "count of 400 digits": ({"count": HUGE}, "count"),
    "a day ahead": ({"start": time.time() + 86_400}, "start"),
    "ten years ahead": ({"start": time.time() + 315e6}, "start"),
    "1970": ({"start": 1.0}, "start"),
    "another boot": ({"boot_id": "boot-0"}, None),
}


def test_telemetry_that_cannot_be_is_refused_and_not_stored(send, subtests):
    for case, (change, field) in BAD_TELEMETRY.items():
        with subtests.test(case=case):
            live = Node.objects.get().live
            status, answer = send("telemetry", telemetry(**change))
            assert status == (409 if case == "another boot" else 400), answer
            assert answer["error"]["detail"]
            if field:
                assert answer["error"]["field"] == field
            assert not TelemetryFrame.objects.exists()
            assert Node.objects.get().live == live


def test_of_anothers_attempt_nothing_is_kept(send):
    other = given.node_make("n2")
    mine, theirs = send.cluster.running(), send.cluster.running(other)
    series = {"cpu_cores": [1.0, 1.0]}
    assert send("telemetry", telemetry(attempts={mine.key: series, theirs.key: series, "f" * 32: series}))[0] == 204
    assert set(Node.objects.get(name="n1").live["attempts"]) == {mine.key}


def gpu(index, **more):
    return {"index": index, "uuid": f"GPU-{index}", "memory_mib": 1024} | more


BAD_HELLO = {
    "another node's name": ({"name": "n2", "storage_domain": None}, 409, "name"),
    "an index twice": ({"gpus": [gpu(0), gpu(0, uuid="GPU-x")]}, 400, "gpus"),
    "a uuid twice": ({"gpus": [gpu(0), gpu(1, uuid="GPU-0")]}, 400, "gpus"),
    "GPUs of no type": ({"gpu_type": None}, 400, "gpu_type"),
    "a negative index": ({"gpus": [gpu(-1)]}, 400, None),
    "absurd GPU memory": ({"gpus": [gpu(0, memory_mib=2**40)]}, 400, None),
    "no cores": ({"cores": 0}, 400, "cores"),
    "absurd memory": ({"memory_mib": 2**60}, 400, "memory_mib"),
    "more than plannings count": ({"memory_mib": COUNT_MOST + 1}, 400, "memory_mib"),
    "400 digits": ({"memory_mib": HUGE}, 400, "memory_mib"),
    "another's storage": ({"storage_domain": "node:n2"}, 400, "storage_domain"),
    "a name of 200": ({"name": "n" * 200}, 400, "name"),
    "NUL": ({"address": "a\0b"}, 400, None),
}


def test_an_inventory_that_cannot_be_changes_nothing(send, subtests):
    given.node_make("n2")
    for case, (change, wanted, field) in BAD_HELLO.items():
        with subtests.test(case=case):
            before = list(Node.objects.order_by("pk").values()), list(Gpu.objects.order_by("pk").values())
            status, answer = send("hello", given.inventory(send.cluster.node) | change)
            assert status == wanted, answer
            if field:
                assert answer["error"]["field"] == field
            assert (list(Node.objects.order_by("pk").values()), list(Gpu.objects.order_by("pk").values())) == before


def test_a_good_hello_is_taken(send):
    assert send("hello", given.inventory(send.cluster.node))[0] == 200


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.just(HUGE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
BODIES = {
    "telemetry": telemetry(),
    "hello": {
        "name": "n1",
        "address": "a",
        "boot_id": "boot-1",
        "agent_version": "1",
        "virtual": False,
        "single_account": True,
        "trusts_tenants": False,
        "gpu_type": "A100",
        "gpus": [gpu(0)],
        "cores": 8,
        "memory_mib": 16_000,
    },
    "report": {
        "boot_id": "boot-1",
        "reports": [{"attempt": "1", "epoch": 1, "rank": 0, "sequence": 1, "state": "running"}],
        "holding": [],
    },
    "records": {"boot_id": "boot-1", "parts": []},
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given_any(data=st.data())
@pytest.mark.parametrize("path", BODIES)
def test_whatever_stands_in_a_field_no_answer_is_a_500(send, path, data):
    field = data.draw(st.sampled_from(sorted(BODIES[path])))
    assert send(path, BODIES[path] | {field: data.draw(JUNK)})[0] < 500
