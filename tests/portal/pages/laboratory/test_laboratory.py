"""Orders and traces: refusals with their field, and that a refusal changes nothing."""

from functools import partial

import pytest

from portal.foundation.errors import BerthError
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.services import (
    owned_share,
    simulation_cancel,
    simulation_delete,
    trace_delete,
)
from portal.people.tenants.models import AuditEvent, Tenant
from portal.planning.rounds.models import OperatorSetting
from tests.portal import given
from tests.portal.pages.laboratory.lab import TRACE, order, simulated, trace, trace_csv

pytestmark = pytest.mark.django_db


def refused(act, field, words=""):
    counts = LabTrace.objects.count(), Simulation.objects.count()
    with pytest.raises(BerthError) as caught:
        act()
    assert (caught.value.field, words in str(caught.value)) == (field, True), caught.value
    assert (LabTrace.objects.count(), Simulation.objects.count()) == counts


def test_a_trace_is_read_before_it_is_kept(tenant, lena):
    kept = trace(tenant, lena)
    assert (kept.jobs, kept.span_s, kept.size_bytes) == (4, 30.0, len(TRACE))
    assert AuditEvent.objects.filter(action="trace.add", tenant=tenant).exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (trace_csv("0,vision,4,600", "5,vision,four,600"), "line 3, column gpus"),
        (trace_csv("0,vision,4,-1"), "line 2, column duration_s"),
        (trace_csv(), "holds no job"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_bad_trace_says_where_it_is_bad(tenant, lena, content, words):
    refused(lambda: trace(tenant, lena, content), "file", words)


@pytest.mark.parametrize("form", ["sia", "shockwave"])
def test_a_format_that_is_read_beside_other_files_is_refused_as_such(tenant, lena, form):
    refused(lambda: trace(tenant, lena, form=form), "format", "./berth simulate --profiles")


def test_limits_of_traces(tenant, lena):
    OperatorSetting.objects.create(name="laboratory_jobs", value=3)
    refused(lambda: trace(tenant, lena), "file", "more than 3 jobs")
    OperatorSetting.objects.update(value=4)
    OperatorSetting.objects.create(name="laboratory_traces", value=1)
    trace(tenant, lena)
    refused(lambda: trace(tenant, lena), "file", "keeps 1 traces")
    OperatorSetting.objects.create(name="laboratory_trace_mib", value=1)
    refused(lambda: trace(tenant, lena, b"x" * (2**20 + 1)), "file", "the laboratory takes at most 1 MiB")
    refused(lambda: trace(tenant, lena, form="nothing"), "format", "berth-csv")


# Those that REST can send stand in test_api.py.
WRONG = [
    ({"policies": []}, "policies", "1 to"),
    ({"policies": ["fifo", "fifo"]}, "policies", "once"),
    ({"knobs": {"policy": "drf"}}, "knobs", "policy"),
    ({"cluster": "nodes: [{count: 2, gpus: 4, cores: 1, memory_gib: 1}]"}, "cluster", "gpu_type"),
    ({"cluster": "nodes: ["}, "cluster", "YAML"),
    ({"cluster": ""}, "cluster", "needs a cluster"),
    ({"cluster": "nodes:\n" + "- {cores: 1, memory_gib: 1}\n" * 10_000}, "cluster", "longer than 256 KiB"),
    ({"name": " "}, "name", "1 to 100"),
    ({"generator": "hops-64", "trace": None, "generated_jobs": 0}, "jobs", "1 to 20000"),
]


def test_what_cannot_be_simulated_is_refused_with_its_field(tenant, lena, subtests):
    own = trace(tenant, lena)
    for fields, field, words in WRONG:
        with subtests.test(fields=fields):
            refused(partial(order, tenant, lena, **({"trace": own} | fields)), field, words)


def test_nobody_simulates_anothers_trace_or_in_anothers_name(tenant, lena):
    other = Tenant.objects.create(name="speech")
    mara = given.member("mara", other)
    own, theirs = trace(tenant, lena), trace(other, mara)
    refused(lambda: order(other, mara, trace=own), "trace")
    refused(lambda: order(tenant, mara, trace=theirs), "tenant", "not a member")


def test_a_tenant_has_so_many_waiting_at_most(tenant, lena):
    OperatorSetting.objects.create(name="laboratory_queue", value=1)
    own = trace(tenant, lena)
    first = order(tenant, lena, trace=own)
    refused(lambda: order(tenant, lena, trace=own), None, "waiting or running")
    simulation_cancel(simulation=first, actor=lena)
    order(tenant, lena, trace=own)


def test_sharing_says_who_sees_it(tenant, lena):
    teammate, olga = given.member("tim", tenant), given.operator()
    outsider = given.member("mara", Tenant.objects.create(name="speech"))
    row = order(tenant, lena)

    def seen():
        return [Simulation.objects.visible_to(user).exists() for user in (lena, teammate, outsider, olga)]

    assert seen() == [True, False, False, False]
    owned_share(row=row, actor=lena, shared_with="tenant")
    assert seen() == [True, True, False, True]
    owned_share(row=row, actor=lena, shared_with="operators")
    assert seen() == [True, False, False, True]
    refused(lambda: owned_share(row=row, actor=lena, shared_with="everybody"), "shared_with")
    assert AuditEvent.objects.filter(action="simulation.share").count() == 2
    lena.memberships.all().delete()
    assert not Simulation.objects.visible_to(lena).exists(), "who left the tenant sees its runs no more"


def test_what_waits_or_runs_is_not_deleted(tenant, lena):
    own = trace(tenant, lena)
    waiting = order(tenant, lena, trace=own)
    refused(lambda: simulation_delete(simulation=waiting, actor=lena), None, "cancel it first")
    refused(lambda: trace_delete(trace=own, actor=lena), None, "cancel it first")
    simulation_cancel(simulation=waiting, actor=lena)
    refused(lambda: simulation_cancel(simulation=waiting, actor=lena), None, "ended already")
    trace_delete(trace=own, actor=lena)
    assert not Simulation.objects.exists()


def test_an_answer_can_be_deleted(tenant, lena):
    done = simulated(tenant, lena)
    simulation_delete(simulation=done, actor=lena)
    assert not Simulation.objects.exists()
