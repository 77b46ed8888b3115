"""`sharing_policy` = dqn: its file is read when it is new, decides who joins whom, and is reported where it cannot be used."""

import os

import numpy as np
import pytest
from django.utils import timezone

from portal.operate.health.problems import problems_of
from portal.planning.estimation.models import Signature, SignatureUse
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.sharing import NAME, policy_learned
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import GpuAllocation, Job
from scheduler.estimator.measured import signature_of
from scheduler.sharing.learned.images import Frame, Limits
from scheduler.sharing.learned.record import packed
from scheduler.sharing.learned.training import Recipe, Training, shapes
from tests.portal import given

pytestmark = pytest.mark.django_db
FRAME = Frame(3)


def policy_file(folder, prefers, *, finished=True):
    """A policy that prefers a subset of the slots whatever it sees."""
    training = Training(FRAME, lambda _: None, Recipe(updates=1), 0)
    training.network.layers = [np.zeros(shape) for shape in shapes(FRAME)]
    training.network.layers[-1][FRAME.subsets.index(prefers)] = 1.0
    training.curve = [0.0] if finished else []
    (folder / NAME).write_bytes(packed(training, Limits(longest=60), {"step_s": 10.0}))


@pytest.fixture
def dqn(cluster, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings_update(actor=given.operator(), sharing_policy="dqn")
    given.shared(cluster.node, 3)
    return tmp_path


def seen(cluster, model, seconds=600.0):
    """A run of the model took this time, and used less than a third of the GPU."""
    signature = Signature.objects.create(
        name=signature_of(cluster.tenant.pk, model, 0), tenant=cluster.tenant, used_at=timezone.now()
    )
    series = {"gpu_utilisation": [30.0] * 64, "gpu_memory_mib": [float(each) for each in range(1000, 1064)]}
    SignatureUse.objects.create(
        signature=signature, gpu_type=cluster.node.gpu_type, at=timezone.now(), series=series, count=1, seconds=seconds
    )


def started(job):
    return GpuAllocation.objects.filter(allocation__attempt__job=job, released_at=None).exists()


def test_the_network_decides_whether_a_job_that_was_seen_to_run_joins(cluster, dqn):
    policy_file(dqn, ())
    first, second = (cluster.submit(**given.shareable(0.3, 4096), model="vgg") for _ in range(2))
    seen(cluster, "vgg")
    planning_run()
    assert (started(first), started(second)) == (True, False)
    assert Job.objects.get(pk=second.pk).reason_figures["shared"]["closed"] == {"declined": 1}
    policy_file(dqn, (0,))
    os.utime(dqn / NAME, (1, 1))
    planning_run()
    assert started(second)
    assert problems_of(timezone.now()) == []


def test_the_planning_is_told_for_how_long_runs_took_and_have_run(cluster, dqn):
    policy_file(dqn, ())
    first, second = (cluster.submit(**given.shareable(0.3, 4096), model="vgg") for _ in range(2))
    seen(cluster, "vgg")
    planning_run()
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert started(first)
    assert state.uses[signature_of(cluster.tenant.pk, "vgg", 0)]["seconds"] == [600.0]
    assert state.learned.about == {"step_s": 10.0}
    assert not started(second)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: None, f"there is no {NAME} in the data directory"),
        (lambda folder: (folder / NAME).write_bytes(b"old"), "cannot be used: it is no policy's file"),
        (lambda folder: policy_file(folder, (), finished=False), "is not finished"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_and_cbp_pp_decides(cluster, dqn, make, words):
    make(dqn)
    assert policy_learned() is None
    (problem,) = problems_of(timezone.now())
    assert words in problem
    assert problem.endswith("jobs share GPUs by cbp-pp")
    assert str(dqn) not in problem
    job = cluster.submit(**given.shareable(0.3, 4096))
    planning_run()
    assert started(job)
    settings_update(actor=given.operator(), sharing_policy="res-ag")
    assert problems_of(timezone.now()) == []
