"""What tuning found is where the owner's later jobs start (algorithms, section 8), in the snapshot and on the form."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.operating import node_tuning
from portal.foundation.errors import BerthError
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.planning.past import array_history_read
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.cores import cores_effects, cores_wanted_of
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, CoreTuning
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
    assert wanted(cluster.submit(category="cv", cores_per_gpu=1)) == 7, "the number asked does not matter"


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("tuned", 3),
        ("exactly", 12),
        ("knob off", 12),
        ("one node off", 3),
        ("all nodes off", 12),
        ("over nodes", 12),
        ("an older agent", 12),
        ("a node that is gone", 12),
    ],
)
def test_what_was_asked_is_kept_only_where_nobody_would_correct_it(cluster, why, expected):
    """Two nodes of four GPUs; the job asks for 12 cores a GPU."""
    nodes = [given.node_make(f"w{n}", gpus=4, cores=48) for n in range(2)]
    Node.objects.exclude(pk__in=[node.pk for node in nodes]).update(dead_at=timezone.now())
    if why == "knob off":
        settings_update(actor=None, tune_cores="off")
    for node in nodes[: {"one node off": 1, "all nodes off": 2}.get(why, 0)]:
        node_tuning(node=node, actor=None, allowed=False)
    if why == "an older agent":
        attempts = [cluster.running(node) for node in nodes]
        for node, attempt in zip(nodes, attempts, strict=True):
            given.heard(node=node, reports=[], holding=[given.key_of(attempt)])
        Attempt.objects.update(started_at=timezone.now() - timedelta(minutes=5))
    if why == "a node that is gone":
        Node.objects.update(dead_at=timezone.now())
    fields = {"cores_exactly": True} if why == "exactly" else {}
    job = cluster.submit(category="cv", cores_per_gpu=12, gpus=8 if why == "over nodes" else 1, **fields)
    assert wanted(job) == expected
    assert cores_wanted_of([job]) == {job.pk: expected * job.gpus[0]}


def test_it_is_placed_with_n_start_whatever_it_asks_and_its_memory_is_what_it_asked(cluster):
    given.node_make("wide", gpus=2, cores=32)
    job = cluster.submit(category="nlp", cores_per_gpu=12, gpus=2, memory_mib=2 * 12 * 64)
    few = cluster.submit(category="speech", cores_per_gpu=1)
    planning_run()
    attempt = Attempt.objects.get(job=job)
    (part,) = attempt.allocations.all()
    assert (attempt.cores, part.memory_mib, job.cores_per_gpu) == (10, 1536, 12)
    assert Attempt.objects.get(job=few).cores == 5, "it asked for one"


@pytest.mark.parametrize(("quota", "cores"), [(None, 5), (3, 3)])
def test_a_quota_bounds_what_is_held_and_not_what_is_asked(cluster, quota, cores):
    given.node_make("wide", gpus=2, cores=32)
    cluster.tenant.core_quota = quota
    cluster.tenant.save()
    job = cluster.submit(category="nlp", cores_per_gpu=12)
    planning_run()
    assert Attempt.objects.get(job=job).cores == cores


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
