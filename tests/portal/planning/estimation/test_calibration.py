"""`./berth calibrate`: measurements, stored with their way and time, and the refusal when it cannot measure."""

import json

import pytest
from django.core.management import CommandError, call_command

from portal.cluster.models import GpuType
from portal.foundation.errors import BerthError
from portal.people.tenants.models import AuditEvent
from portal.planning.estimation.calibration import calibration_record, calibration_submit, calibration_tasks
from portal.planning.estimation.models import Link
from portal.planning.estimation.selectors import links_load
from portal.work.jobs.models import Job
from portal.work.jobs.services import log_append
from tests.portal import given

LINE = 'noise\nBERTH-LINK {"method": "a ring", "measured": [[1000000, 0.5, 2], [2000000, 1.0, 2]], "nodes": %d}\n'


@pytest.fixture
def actor(cluster):
    return given.operator()


def tasks(**options):
    return {(task.gpu_type.name, task.kind): task for task in calibration_tasks(**options)}


def ended(cluster, actor, task, output, *nodes, exit_code=0):
    job = calibration_submit(task=task, actor=actor, tenant=cluster.tenant, python="python3", time_limit_s=60)
    attempt = cluster.start(job, *nodes, gpus=1)
    for rank in range(attempt.allocations.count()):
        cluster.report(attempt, "running", rank=rank, pid=100 + rank)
    data = output.encode()
    log_append(node=cluster.node, key=attempt.key, epoch=1, rank=0, stream="stdout", offset=0, data=data)
    for rank in range(attempt.allocations.count()):
        cluster.end(attempt, rank=rank, exit_code=exit_code)
    job.refresh_from_db()
    return job


def test_section_2_bandwidths_are_measured_by_a_job_and_used_by_the_estimator(cluster, actor):
    given.node_make("n2", gpus=2)
    found = tasks()
    assert {kind: task.sizes for (_, kind), task in found.items()} == {"within": (2, 4), "between": (5,)}
    job = ended(cluster, actor, found["A100", "within"], LINE % 1)
    assert "def within_node" in Job.objects.get(pk=job.pk).payload.description["files"]["link_measure.py"]
    link = calibration_record(task=found["A100", "within"], job=job, actor=actor)
    assert (link.within_node, link.between_nodes) == (pytest.approx(1e6), None)  # 1e6 * 1/2 in 0.5 s
    assert "a ring; 2 sizes up to 2,000,000 parameters" in link.within_method
    assert AuditEvent.objects.get(action="link.measure").detail["within"] == pytest.approx(1e6)
    assert list(tasks()) == [("A100", "between")]  # known values are not measured again
    assert len(tasks(again=True)) == 2
    spread = ended(cluster, actor, found["A100", "between"], LINE % 2, cluster.node, given.Node.objects.get(name="n2"))
    calibration_record(task=found["A100", "between"], job=spread, actor=actor)
    assert links_load()["A100"].between_nodes == pytest.approx(2e6)
    assert links_load()["A100"].within_node == pytest.approx(1e6)


@pytest.mark.parametrize(
    ("output", "exit_code", "code"),
    [
        ("", 1, "failed"),
        ("nothing to say", 0, "unreadable"),
        ("BERTH-LINK {broken", 0, "unreadable"),
        ("BERTH-LINK {}", 0, "unreadable"),
        (LINE % 2, 0, "wrong_placement"),
    ],
)
def test_a_job_that_measured_nothing_leaves_no_figure(cluster, actor, output, exit_code, code):
    task = tasks()["A100", "within"]
    job = ended(cluster, actor, task, output, exit_code=exit_code)
    with pytest.raises(BerthError) as error:
        calibration_record(task=task, job=job, actor=actor)
    assert error.value.code == code
    assert not Link.objects.exists()


def test_what_cannot_be_measured_says_why(cluster):
    small = GpuType.objects.create(name="T4")
    given.node_make("t4", gpus=1, gpu_type=small)
    found = tasks()
    assert "2 GPUs or more" in found["T4", "within"].why
    assert "fewer than 2 nodes" in found["A100", "between"].why
    with pytest.raises(BerthError, match="no GPU type H100; there are: A100, T4"):
        calibration_tasks(names=["H100"])


def test_the_command_shows_what_is_known(cluster, capsys):
    call_command("calibrate", "--show", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [(row["gpu_type"], row["kind"], row["parameters_per_s"]) for row in rows] == [
        ("A100", "within", None),
        ("A100", "between", None),
    ]
    call_command("calibrate", "--show")
    assert "not measured" in capsys.readouterr().out


def test_the_command_needs_an_operator_a_tenant_and_time(cluster, capsys):
    with pytest.raises(CommandError, match="no operator yet"):
        call_command("calibrate")
    given.operator()
    with pytest.raises(CommandError, match="no tenant nobody; --tenant takes one of: vision-lab"):
        call_command("calibrate", "--tenant", "nobody")
    given.Tenant.objects.create(name="second")
    with pytest.raises(CommandError, match="Choose with --tenant"):
        call_command("calibrate")
    with pytest.raises(CommandError, match="--wait-s must be at least 1"):
        call_command("calibrate", "--wait-s", "0")


def test_a_job_that_does_not_end_in_time_is_cancelled(cluster, actor, capsys):
    with pytest.raises(CommandError, match=r"did not end in 1 s \(it waits: .*is Berth up"):
        call_command("calibrate", "--wait-s", "1")
    assert [job.state for job in Job.objects.all()] == ["CANCELLED"]
    assert "fewer than 2 nodes" in capsys.readouterr().err
