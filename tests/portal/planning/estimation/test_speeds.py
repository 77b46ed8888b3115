"""Entity speed of nodes (algorithms.md section 6) and the records that are forgotten."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import NodeSpeed, Signature, ThroughputCell
from portal.planning.estimation.speeds import SIGNATURES_LEAST, speed_factor, speeds_refresh
from portal.planning.estimation.tasks import KEEP_ENDED, KEEP_UNUSED, signatures_expire
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from tests.portal import given


@pytest.mark.parametrize(
    ("ratios", "factor"), [([1.0], 1.0), ([0.9, 0.93, 2.0], 0.95), ([0.82, 0.84], 0.85), ([0.001], 0.05)]
)
def test_section_6_the_factor_is_the_median_in_5_percent_steps(ratios, factor):
    assert speed_factor(ratios) == factor


def measured(cluster, label, mean, *, gpus=1, count=10, node=None):
    name = f"tenant:{cluster.tenant.pk}:{label}"
    values = {"tenant": cluster.tenant, "used_at": timezone.now()}
    signature, _ = Signature.objects.get_or_create(name=name, defaults=values)
    where = {"node": node} if node else {"gpu_type": GpuType.objects.get()}
    ThroughputCell.objects.create(signature=signature, gpus=gpus, count=count, mean=mean, **where)


def test_section_6_a_node_that_is_slow_for_most_jobs_is_slow(cluster, client):
    slow, other = given.node_make("slow"), given.node_make("other")
    for label, here in (("a", 80.0), ("b", 81.0), ("c", 200.0)):
        for gpus in (1, 2):
            measured(cluster, label, 100.0, gpus=gpus)
            measured(cluster, label, here, gpus=gpus, node=slow)
        measured(cluster, label, 50.0, gpus=4, count=2, node=slow)  # too few measurements
    for label in "ab"[: SIGNATURES_LEAST - 1]:
        measured(cluster, label, 30.0, node=other)  # too few jobs
    assert speeds_refresh() == 1
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert {node.name: node.speed for node in state.nodes} == {"n1": 1.0, "slow": 0.8, "other": 1.0}
    client.force_login(cluster.owner)
    assert "of its type&#x27;s, over 3 models or jobs" in client.get("/cluster/slow/").content.decode()
    assert "models or jobs" not in client.get("/cluster/other/").content.decode()
    ThroughputCell.objects.filter(node=slow, mean__lt=100).update(mean=100.0)
    assert speeds_refresh() == 1
    assert NodeSpeed.objects.get().factor == 1.0
    ThroughputCell.objects.all().delete()
    assert speeds_refresh() == 0
    assert not NodeSpeed.objects.exists()


def test_one_tenants_false_records_make_no_node_slow_for_others(cluster):
    """Three labels of its own, all slow there: it would have the node to itself."""
    wanted = given.node_make("wanted")
    rival = Tenant.objects.create(name="rival")

    def told(tenant, label, ratio):
        measured(cluster, label, 100.0)
        measured(cluster, label, 100.0 * ratio, node=wanted)
        Signature.objects.filter(name__endswith=f":{label}").update(tenant=tenant)

    for label in "abc":
        told(rival, label, 0.05)
    told(cluster.tenant, "honest", 1.0)
    speeds_refresh()
    assert NodeSpeed.objects.get(node=wanted).factor == 1.0
    for label in "def":
        told(cluster.tenant, label, 0.8)
    speeds_refresh()
    assert NodeSpeed.objects.get(node=wanted).factor == 0.8, "two tenants agree that it is slow"


def test_tables_of_ended_jobs_and_unused_labels_are_forgotten_in_time(cluster):
    now, day = timezone.now(), timedelta(days=1)
    old, new, live = (cluster.submit() for _ in range(3))
    for job, ended in ((old, now - KEEP_ENDED - day), (new, now - KEEP_ENDED + day)):
        Job.objects.filter(pk=job.pk).update(state="COMPLETED", ended_at=ended, waiting_since=None)
    for job in (old, new, live):
        Signature.objects.create(name=f"job:{job.pk}", tenant=cluster.tenant, job=job, used_at=now)
    for label, used_at in (("used", now), ("unused", now - KEEP_UNUSED - day)):
        Signature.objects.create(name=f"tenant:1:{label}", tenant=cluster.tenant, used_at=used_at)
    assert signatures_expire() == 2
    assert set(Signature.objects.values_list("name", flat=True)) == {f"job:{new.pk}", f"job:{live.pk}", "tenant:1:used"}
