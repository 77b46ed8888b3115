"""Other counts and types of GPUs with which a job that is not submitted yet would be over sooner."""

import pytest

from portal.cluster.models import GpuType
from portal.foundation.errors import BerthError
from portal.planning.rounds.asking import alternatives
from portal.planning.rounds.asking.alternatives import alternatives_find
from portal.planning.rounds.asking.dryrun import dry_run
from portal.work.jobs.services.submission import submission_check
from tests.portal.given import node_make

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = 3600.0


@pytest.fixture
def world(cluster):
    node_make("h1", gpu_type=GpuType.objects.create(name="H100", relative_speed=2.0))
    return cluster


def found(world, **fields):
    description = {"command": "true", "gpus": 1, "expected_duration_s": 2 * HOUR, "gpu_types": ["A100"]} | fields
    tenant, parsed = submission_check(user=world.owner, description=description)
    asked = {"description": parsed, "tenant": tenant, "user": world.owner}
    return dry_run(**asked), *alternatives_find(**asked, sizes=(1, 2, 4, 8))


def test_the_first_to_end_comes_first_and_each_ends_sooner(world):
    now, others, all_tried = found(world)
    assert all_tried
    assert (now["over_at"] - now["at"]).total_seconds() == 2 * HOUR, "the duration that was given is that of its place"
    assert [(each.gpus, each.gpu_type) for each in others] == [(1, "H100"), (2, None)]
    assert others[0].run_s == HOUR
    assert others[0].over_at < others[1].over_at < now["over_at"]


def test_nothing_is_claimed_where_no_one_knows_how_long_it_runs(world):
    now, others, _ = found(world, expected_duration_s=None)
    assert (now["over_at"], others) == (None, [])


def test_a_time_limit_before_the_end_is_no_end(world):
    now, others, _ = found(world, time_limit_s=1800)
    assert (now["over_at"], others) == (None, [])


def test_jobs_without_a_count_to_change_have_none(world):
    assert found(world, gpus=0, gpu_types=None)[1:] == ([], True)
    sets = found(world, gpus=[1, 2], gpu_types=None)[1]
    assert all(each.gpu_type for each in sets), "a job that accepts several is offered no other count"


def test_what_was_not_tried_in_time_is_said_and_one_at_a_time_is_worked_out(world, monkeypatch):
    monkeypatch.setattr(alternatives, "LIMIT_S", 0.0)
    assert found(world)[1:] == ([], False)
    with alternatives._working, pytest.raises(BerthError) as refused:
        found(world)
    assert refused.value.status == 429
