"""An attempt's telemetry becomes its signature's expected use: once, under its lock, only its own tenant's."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given as given_any
from hypothesis import strategies as st

from portal.people.tenants.models import Tenant
from portal.planning.estimation.distilling import POINTS, RECENT, SETTLE_S, attempts_distil, percentile, resampled
from portal.planning.estimation.models import AttemptDistilled, Signature, SignatureUse
from portal.work.jobs.models import Attempt
from tests.portal import given

pytestmark = pytest.mark.django_db
START = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
LENGTH_S = 100


def ran(
    cluster, *nodes, use=50.0, own=None, gpu_memory=None, model="resnet", gpus=2, start=START, measured=START, **fields
):
    """An attempt that ran for LENGTH_S and has ended, with its nodes' samples of that time."""
    attempt = cluster.running(*nodes, gpus=gpus, model=model, **fields)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=start, started_at=start)
    for part in attempt.allocations.all():
        indices = part.gpu_allocations.values_list("gpu__index", flat=True)
        series = {"utilisation": [use] * LENGTH_S, "power_w": [100.0] * 99 + [300.0]}
        if gpu_memory is not None:
            series["memory_mib"] = [gpu_memory] * LENGTH_S
        measures = {"cpu_cores": [1.0] * LENGTH_S, "memory_mib": [float(n) for n in range(LENGTH_S)]} | (own or {})
        batch = {
            "boot_id": "boot-1",
            "start": measured.timestamp(),
            "period_s": 1.0,
            "count": LENGTH_S,
            "gpus": {str(index): series for index in (*indices, 3)},
            "host": {},
            "attempts": {attempt.key: measures, "f" * 32: {"cpu_cores": [77.0] * LENGTH_S}},
        }
        given.measured(node=part.node, batch=batch)
    for rank in range(attempt.allocations.count()):
        cluster.end(attempt, rank=rank, at=start.timestamp() + LENGTH_S)
    attempt.refresh_from_db()
    return attempt


def only_use():
    return SignatureUse.objects.get()


def test_an_ended_attempt_leaves_series_percentile_and_highest_under_its_signature(cluster):
    attempt = ran(cluster)
    assert attempts_distil() == 1
    row = only_use()
    assert (row.signature.name, row.gpu_type.name) == (f"tenant:{cluster.tenant.pk}:resnet", "A100")
    assert (row.count, row.seconds, row.at) == (1, LENGTH_S, attempt.ended_at)
    assert len(row.series["memory_mib"]) == POINTS
    assert row.series["memory_mib"][0] < row.series["memory_mib"][-1]
    assert row.highs[0]["memory_mib"] == pytest.approx(79.0)
    assert row.most["memory_mib"] == 99.0
    assert (row.highs[0]["gpu_utilisation"], row.most["gpu_power_w"]) == (50.0, 300.0)
    assert attempts_distil() == 0, "once"
    assert only_use().count == 1


def test_what_its_own_processes_use_of_gpus_outweighs_what_the_gpus_do(cluster):
    ran(cluster, use=99.0, own={"gpu_utilisation": [20.0] * LENGTH_S, "gpu_memory_mib": [4000.0] * LENGTH_S})
    attempts_distil()
    assert only_use().most["gpu_utilisation"] == 20.0
    assert only_use().most["gpu_memory_mib"] == 2000.0, "for each of its two GPUs"


def test_memory_of_the_gpus_that_it_alone_holds_counts_where_its_processes_own_is_not_known(cluster):
    ran(cluster, gpu_memory=3000.0)
    attempts_distil()
    row = only_use()
    assert (row.most["gpu_memory_mib"], row.highs[0]["gpu_memory_mib"]) == (3000.0, 3000.0)
    assert row.series["gpu_memory_mib"][0] == 3000.0


def test_parts_on_several_nodes_add_up(cluster):
    ran(cluster, cluster.node, given.node_make("n2"), gpus=1)
    attempts_distil()
    assert only_use().most["cpu_cores"] == 2.0
    assert only_use().most["gpu_utilisation"] == 50.0


def test_later_attempts_are_added_and_the_highest_recent_percentile_counts(cluster):
    for place, use in enumerate((90.0, *[10.0] * RECENT)):
        at = START - timedelta(seconds=2 * LENGTH_S * (RECENT - place))
        ran(cluster, use=use, start=at, measured=at)
        attempts_distil()
    row = only_use()
    assert (row.count, len(row.highs), row.most["gpu_utilisation"]) == (RECENT + 1, RECENT, 90.0)
    assert max(each["gpu_utilisation"] for each in row.highs) == 10.0


def test_another_tenant_s_job_of_the_same_label_has_a_row_of_its_own(cluster):
    ran(cluster)
    other = Tenant.objects.create(name="speech-lab")
    ran(cluster, use=5.0, user=given.member("omar", other))
    attempts_distil()
    names = set(SignatureUse.objects.values_list("signature__name", "signature__tenant_id"))
    assert names == {(f"tenant:{t.pk}:resnet", t.pk) for t in (cluster.tenant, other)}


def test_a_job_without_a_label_that_has_ended_leaves_nothing_but_the_mark(cluster):
    ran(cluster, model="")
    attempts_distil()
    assert not Signature.objects.exists()
    assert AttemptDistilled.objects.count() == 1


def test_without_samples_and_before_the_last_came_nothing_is_kept(cluster):
    just = timezone.now() - timedelta(seconds=LENGTH_S + SETTLE_S - 20)
    ran(cluster, start=just)
    assert attempts_distil() == 0
    ran(cluster, start=START - timedelta(hours=2))
    assert attempts_distil() == 1
    assert not SignatureUse.objects.exists()


def test_looking_for_them_uses_the_index(cluster, django_assert_max_num_queries):
    ran(cluster)
    attempts_distil()
    with django_assert_max_num_queries(1):
        attempts_distil()


@given_any(st.dictionaries(st.integers(0, 1000), st.floats(0, 1e6), max_size=200))
def test_a_resampled_series_has_its_length_and_stays_within_its_values(values):
    found = resampled(values, 0.0, 1000.0)
    known = [value for value in found if value is not None]
    assert len(found) == POINTS
    assert bool(known) == bool(values)
    assert all(min(values.values()) - 1e-3 <= value <= max(values.values()) + 1e-3 for value in known)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (5, 4), (10, 8), (11, 9)])
def test_the_percentile_is_one_of_the_values(count, expected):
    assert percentile([float(n) for n in range(1, count + 1)]) == expected
