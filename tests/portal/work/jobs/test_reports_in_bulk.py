"""A report of what is not (any more) this node's costs one look, however long it is; and there is a longest."""

import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.cluster.models import Node
from portal.nodes.serializers import MOST_ENTRIES
from portal.people.tenants.services import secret_digest
from portal.work.jobs.models import Allocation
from tests.portal import given
from tests.real_ends import real_end
from workers.parts.reporting import MOST_ENTRIES as SENT_AT_ONCE

pytestmark = pytest.mark.django_db


def unknown(count):
    names = [{"attempt": f"{n:032x}", "epoch": 1, "rank": 0} for n in range(count)]
    return [given.report(name, "running", pid=7) for name in names], [{**name, "cores_sequence": 0} for name in names]


def told(cluster, reports, holding):
    with CaptureQueriesContext(connection) as queries:
        answer = given.heard(node=cluster.node, reports=reports, holding=holding)
    return answer, len(queries)


def test_what_is_unknown_is_found_out_at_once(cluster):
    few, few_queries = told(cluster, *unknown(3))
    many, many_queries = told(cluster, *unknown(MOST_ENTRIES))
    assert many_queries == few_queries <= 5
    assert [each["code"] for each in many["refused"]] == ["unknown_part"] * MOST_ENTRIES
    assert len(many["stop"]) == MOST_ENTRIES
    assert (few["accepted"], many["leases"]) == ([], [])
    cluster.node.refresh_from_db()
    assert cluster.node.refused_messages == 3 + MOST_ENTRIES


def test_what_has_ended_and_what_is_old_is_refused_without_a_lock(cluster):
    ended, live = cluster.running(), cluster.running()
    cluster.report(ended, "ended", exit_code=0)
    key, old = given.key_of(ended), given.key_of(live)
    reports = [given.report(key, "running", sequence=99), given.report(old, "running")] * 100
    answer, queries = told(cluster, reports, [given.held(ended)] * 100)
    assert {(each["attempt"], each["code"]) for each in answer["refused"]} == {
        (ended.key, "ended"),
        (live.key, "stale_sequence"),
    }
    assert len(answer["stop"]) == 100
    assert queries <= 8


def test_a_foreign_nodes_part_is_unknown(cluster):
    other = given.node_make("n2")
    attempt = cluster.running()
    key = given.key_of(attempt)
    end = given.report(key, "ended", sequence=9, **real_end(exit_code=1))
    answer = given.heard(node=other, reports=[end], holding=[given.held(attempt)])
    assert answer["refused"] == [{**key, "sequence": 9, "code": "unknown_part"}]
    assert answer["stop"] == [key]
    assert Allocation.objects.get(attempt=attempt).state == Allocation.State.RUNNING


def test_the_same_report_twice_in_one_message_counts_once(cluster):
    attempt = cluster.started()
    report = given.report(given.key_of(attempt), "running", pid=7)
    answer = given.heard(node=cluster.node, reports=[report, report], holding=[])
    assert len(answer["accepted"]) == 1
    assert [each["code"] for each in answer["refused"]] == ["stale_sequence"]


@pytest.mark.parametrize("field", ["reports", "holding"])
def test_a_longer_message_is_refused_by_its_field_and_the_agent_sends_none(cluster, field):
    reports, names = unknown(MOST_ENTRIES + 1)
    secret = "berthnode_test"
    Node.objects.filter(pk=cluster.node.pk).update(token_digest=secret_digest(secret))
    body = {"boot_id": cluster.node.boot_id, "reports": [], "holding": []} | {
        field: reports if field == "reports" else names
    }
    answer = Client().post(
        "/api/agent/v1/report",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field
    assert f"at most {MOST_ENTRIES}" in answer.json()["error"]["detail"]
    assert SENT_AT_ONCE == MOST_ENTRIES
