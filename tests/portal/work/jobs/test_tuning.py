"""What tuning found is where the owner's later jobs start (algorithms, section 8), in the snapshot and on the form."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.planning.past import array_history_read
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.selectors import cores_effects, cores_wanted_of
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import CoreTuning
from portal.work.jobs.services.cores import core_tuning_record, cores_tuned
from tests.portal import given


def wanted(job):
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    return next(each.cores for each in state.jobs if each.id == job.pk)


def test_the_largest_tuned_number_of_the_owners_past_of_the_category(cluster):
    first, second, nlp = (cluster.submit(category=name) for name in ("cv", "cv", "nlp"))
    core_tuning_record(job=first, cores_per_gpu=7, steps=3)
    core_tuning_record(job=second, cores_per_gpu=2, steps=4)
    assert cores_tuned() == {cluster.owner.pk: {"cv": 7}}
    assert wanted(cluster.submit(category="cv")) == 7
    assert wanted(cluster.submit(category="cv", pipelined=True)) == 6
    assert wanted(nlp) == 5, "no past of that category: the category's number"
    assert wanted(cluster.submit()) == 7, "no category: the owner's whole past"
    assert wanted(cluster.submit(category="cv", cores_per_gpu=1)) == 1, "what the tenant asked stands"


def test_another_owners_past_is_not_ones_own(cluster):
    core_tuning_record(job=cluster.submit(category="cv"), cores_per_gpu=7)
    mate = given.member("mate", cluster.tenant)
    job = cluster.submit(user=mate, category="cv")
    assert wanted(job) == 3
    assert cores_wanted_of([job]) == {job.pk: 3}
    assert cores_effects(mate)["category:cv"] == "3 cores a GPU"
    assert cores_effects(cluster.owner)["category:cv"] == "7 cores a GPU, as your earlier jobs"


def test_a_later_result_of_the_same_job_replaces_the_earlier(cluster):
    job = cluster.submit(category="cv")
    for cores in (7, 4):
        core_tuning_record(job=job, cores_per_gpu=cores)
    assert cores_tuned() == {cluster.owner.pk: {"cv": 4}}


def test_the_arrays_are_divided_by_the_last_weeks_tuned_numbers(cluster):
    for cores in (5, 9):
        core_tuning_record(job=cluster.submit(), cores_per_gpu=cores)
    CoreTuning.objects.filter(cores_per_gpu=9).update(tuned_at=timezone.now() - timedelta(days=8))
    assert array_history_read(now=timezone.now())["tuned_cores_per_gpu"] == [5]


@pytest.mark.parametrize(
    ("gpus", "cores", "field"), [(0, 3, "job"), (1, 0, "cores_per_gpu"), (1, True, "cores_per_gpu")]
)
def test_bad_results_are_refused_by_name(cluster, gpus, cores, field):
    job = cluster.submit(gpus=gpus)
    with pytest.raises(BerthError) as error:
        core_tuning_record(job=job, cores_per_gpu=cores)
    assert error.value.field == field
    assert not CoreTuning.objects.exists()


def test_an_operator_may_give_a_number_by_hand(cluster, capsys):
    job = cluster.submit(category="cv")
    call_command("core_tuning", str(job.pk), "6")
    assert "start from 6 cores a GPU" in capsys.readouterr().out
    assert wanted(cluster.submit(category="cv")) == 6
    assert AuditEvent.objects.get(action="core_tuning.set").detail == {"cores": 6}
    for arguments in (("999999", "6"), (str(job.pk), "0")):
        with pytest.raises(CommandError):
            call_command("core_tuning", *arguments)
