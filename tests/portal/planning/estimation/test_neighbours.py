"""The cost of jobs to each other on one GPU, from their records: by pair of signatures, against their speed without neighbours."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Gpu
from portal.people.tenants.models import Tenant
from portal.planning.estimation import neighbours
from portal.planning.estimation.models import AttemptSpeed, PairSpeed, Signature, ThroughputCell
from portal.planning.estimation.neighbours import LEAST_ALONE, SLACK
from portal.planning.estimation.selectors import pairs_measured
from portal.planning.estimation.tasks import KEEP_UNUSED, signatures_expire
from portal.work.jobs.models import Attempt, GpuAllocation
from portal.work.jobs.services.placing import attempt_start
from tests.portal import given
from tests.portal.planning.estimation.test_records import record, send

pytestmark = pytest.mark.django_db
LONG_AGO, LONGER_AGO = timedelta(minutes=10), timedelta(minutes=20)


def sharing(cluster, model, *, index=0, since=LONG_AGO, **fields):
    """An attempt on a part of one GPU, for this time."""
    place = replace(
        given.free_part(cluster.node), gpu_indices=(3,)
    )  # as a whole GPU first, then as a part of the other
    attempt = attempt_start(job_id=cluster.submit(model=model, **fields).pk, parts=[place], planning_number=1)
    cluster.report(attempt, "running", pid=100)
    at = timezone.now() - since
    part = attempt.allocations.get()
    part.gpu_allocations.all().delete()
    gpu = Gpu.objects.get(node=part.node, index=index)
    Gpu.objects.filter(pk=gpu.pk).exclude(mode="shared").update(mode="shared")
    share = {"compute": 300, "memory_mib": 1000} if hasattr(GpuAllocation, "memory_mib") else {}
    GpuAllocation.objects.create(allocation=part, gpu=gpu, mode="shared", created_at=at, **share)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=at)
    return Attempt.objects.get(pk=attempt.pk)


def went(attempt, ago):
    """Its part of the GPU was given back this long ago."""
    GpuAllocation.objects.filter(allocation__attempt=attempt).update(released_at=timezone.now() - ago)


def note_alone(cluster, model, rate=100.0):
    """Three records of a job that had its GPU for itself."""
    attempt = cluster.running(gpus=1, model=model)
    send(attempt, *[record(2 * rate)] * LEAST_ALONE)
    cluster.end(attempt)


def names(cluster, *models):
    return [f"tenant:{cluster.tenant.pk}:{model}" for model in models]


def alone_counts():
    return set(ThroughputCell.objects.values_list("count", flat=True))


def test_records_beside_one_neighbour_are_compared_with_those_alone_and_kept_out_of_them(cluster):
    note_alone(cluster, "a")
    first, _ = sharing(cluster, "a"), sharing(cluster, "b", since=LONGER_AGO)
    send(first, record(160.0), record(120.0))
    own, beside = names(cluster, "a", "b")
    ((key, (cell, _)),) = pairs_measured().items()
    assert key == (own, beside, first.allocations.get().node.gpu_type.name)
    assert (cell.count, cell.mean) == (2, pytest.approx(0.7))
    assert alone_counts() == {LEAST_ALONE}
    assert AttemptSpeed.objects.get(attempt=first).samples == 280.0, "what the job has done counts all the same"
    assert pairs_measured([own]) == {}
    assert pairs_measured([own, beside]) == pairs_measured()


def test_alone_on_a_shared_gpu_counts_as_alone(cluster):
    first, other = sharing(cluster, "a"), sharing(cluster, "b", since=LONGER_AGO)
    sharing(cluster, "c", index=1, since=LONGER_AGO)
    went(other, LONG_AGO * 1.5)
    send(first, *[record(200.0)] * 4)
    assert alone_counts() == {4}
    assert not PairSpeed.objects.exists()


@pytest.mark.parametrize("others", [1, 2])
def test_without_a_speed_alone_and_with_two_neighbours_nothing_is_said(cluster, others):
    if others == 2:
        note_alone(cluster, "a")
    first = sharing(cluster, "a")
    for number in range(others):
        sharing(cluster, f"b{number}", since=LONGER_AGO)
    send(first, record(160.0))
    assert not PairSpeed.objects.exists()
    assert alone_counts() in (set(), {LEAST_ALONE})


def test_what_was_measured_while_neighbours_changed_counts_nowhere(cluster):
    note_alone(cluster, "a")
    first, other = sharing(cluster, "a"), sharing(cluster, "b", since=LONGER_AGO)
    went(other, SLACK / 3)
    send(first, record(160.0))
    late = sharing(cluster, "c", since=SLACK / 3)
    send(first, record(160.0), offset=100)
    assert late.pk
    assert not PairSpeed.objects.exists()
    assert alone_counts() == {LEAST_ALONE}


def test_records_that_waited_are_judged_by_the_whole_time_since_the_last_ones(cluster):
    """After an outage they come late: the neighbour that came meanwhile may not have been there when they were written."""
    note_alone(cluster, "a")
    first = sharing(cluster, "a")
    send(first, record(200.0))
    AttemptSpeed.objects.filter(attempt=first).update(at=timezone.now() - timedelta(minutes=5))
    sharing(cluster, "b", since=timedelta(minutes=2))
    send(first, record(200.0), offset=100)
    assert not PairSpeed.objects.exists()
    send(first, record(120.0), offset=200)
    assert PairSpeed.objects.get().mean == pytest.approx(0.6)


def test_a_pair_may_be_of_two_tenants_and_is_forgotten_in_time(cluster):
    note_alone(cluster, "a")
    first, other = sharing(cluster, "a"), sharing(cluster, "b", since=LONGER_AGO)
    stranger = Tenant.objects.create(name="stranger")
    type(other.job).objects.filter(pk=other.job_id).update(tenant=stranger)
    send(first, record(160.0))
    row = PairSpeed.objects.get()
    assert row.beside == f"tenant:{stranger.pk}:b"
    PairSpeed.objects.update(at=timezone.now() - KEEP_UNUSED - timedelta(days=1))
    signatures_expire()
    assert not PairSpeed.objects.exists()


def test_operators_see_the_pairs_by_name_in_a_matrix_and_over_rest(cluster, client):
    note_alone(cluster, "a")
    first, _ = sharing(cluster, "a"), sharing(cluster, "", since=LONGER_AGO)
    send(first, record(130.0))
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    page = client.get("/admin/estimation/pairspeed/").content.decode()
    for words in (f"{cluster.tenant.name} / a", "beside job ", "65 % (slow)", "A100"):
        assert words in page, words
    (told,) = client.get("/api/v1/neighbours").json()["results"]
    assert (told["job"], told["speed_kept"], told["records"]) == (f"{cluster.tenant.name} / a", 0.65, 1)
    assert told["beside"].startswith("job ")


def test_a_matrix_has_the_names_with_the_most_records_and_says_how_many_more_there_are(cluster, client, monkeypatch):
    gpu_type = cluster.node.gpu_type
    for number in range(4):
        own = Signature.objects.create(
            name=f"tenant:{cluster.tenant.pk}:m{number}", tenant=cluster.tenant, used_at=timezone.now()
        )
        for other in range(4):
            PairSpeed.objects.create(
                signature=own,
                beside=f"tenant:{cluster.tenant.pk}:m{other}",
                gpu_type=gpu_type,
                count=10 * number + other + 1,
                mean=0.95,
                at=timezone.now(),
            )
    monkeypatch.setattr(neighbours, "SHOWN", 2)
    (shown,) = neighbours.matrices()
    assert shown.names == [f"{cluster.tenant.name} / m2", f"{cluster.tenant.name} / m3"]
    assert ([len(cells) for _, cells in shown.rows], shown.left_out) == ([2, 2], 2)
    assert shown.rows[0][1][0] == neighbours.Share(0.95, 23, "fine")
