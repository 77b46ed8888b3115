"""What a node's checks find: who is cordoned, what is stopped, what an operator says to it, and that no planning gives it away."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Gpu, Node, NodeEvent
from portal.cluster.services.health import gpu_cordon, gpu_resume, node_health_take
from portal.cluster.services.joining import node_hello
from portal.cluster.services.operating import node_drain, node_resume
from portal.cluster.tasks import roll_up
from portal.foundation.errors import BerthError, NotFound
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.planning.snapshot import state_load
from portal.work.jobs.models import JobEvent
from portal.work.jobs.services.placing import DoesNotFit
from portal.work.jobs.states import JobState
from scheduler.parameters import Parameters
from tests.portal import given

pytestmark = pytest.mark.django_db


def finding(subject="gpu:1", check="xid 79", level="fail", detail="Xid 79: GPU has fallen off the bus"):
    return {"subject": subject, "check": check, "level": level, "detail": detail, "remedy": "Reboot the node."}


def take(node, *findings, outside=()):
    node.refresh_from_db()
    node_health_take(node=node, findings=findings, outside=outside)


def gpu(node, index=1):
    return Gpu.objects.get(node=node, index=index)


def kinds(node):
    return [event.kind for event in NodeEvent.objects.filter(node=node).order_by("pk")]


def idle(node):
    (found,) = [each for each in state_load(now=timezone.now(), parameters=Parameters()).nodes if each.id == node.pk]
    return found.gpus_total, found.idle_gpus


def test_a_gpu_that_fails_is_cordoned_with_reason_and_remedy_and_no_planning_sees_it(cluster):
    assert idle(cluster.node) == (4, (0, 1, 2, 3))
    take(cluster.node, finding())
    found = gpu(cluster.node)
    assert (found.cordon_check, found.cordon_remedy) == ("xid 79", "Reboot the node.")
    assert "fallen off the bus" in found.closed_because
    assert idle(cluster.node) == (3, (0, 2, 3))
    assert kinds(cluster.node) == ["check failed", "GPU cordoned"]


def test_a_planning_made_before_the_cordon_does_not_place_there(cluster):
    job = cluster.submit()
    gpu_cordon(node=cluster.node, index=0, actor=None, reason="a bad fan")
    with pytest.raises(DoesNotFit, match="takes no jobs"):
        cluster.start(job)


def test_the_same_again_writes_nothing(cluster, django_assert_num_queries):
    take(cluster.node, finding(), outside=[{"gpu": 0, "pid": 7, "name": "python", "memory_mib": 5.0}])
    cluster.node.refresh_from_db()
    with django_assert_num_queries(0):
        node_health_take(
            node=cluster.node,
            findings=[finding()],
            outside=[{"gpu": 0, "pid": 7, "name": "python", "memory_mib": 9.0}],
        )


def test_what_runs_on_a_failed_gpu_is_stopped_and_waits_again_if_it_may(cluster):
    first = cluster.running(gpus=2, restartable=True)
    other = cluster.running(gpus=1, restartable=True)
    take(cluster.node, finding())
    first.refresh_from_db()
    other.refresh_from_db()
    assert (first.stop_reason, other.stop_reason) == ("unwell", "")
    cluster.report(first, "ended", reason="exit", exit_code=1)
    first.job.refresh_from_db()
    assert (first.job.state, first.job.requeues) == (JobState.PENDING, 1), (
        "its GPU was lost: that is not its own failure"
    )
    texts = list(JobEvent.objects.filter(job=first.job, kind="unwell").values_list("text", flat=True))
    assert texts == ["Stopped, to run elsewhere: n1: GPU 1: Xid 79: GPU has fallen off the bus."]


def test_a_job_that_may_not_run_again_is_left_alone_and_told(cluster):
    attempt = cluster.running(gpus=2)
    take(cluster.node, finding())
    attempt.refresh_from_db()
    assert attempt.stop_reason == ""
    assert "may not run again" in JobEvent.objects.get(job=attempt.job, kind="unwell").text
    assert idle(cluster.node) == (4, (2, 3)), "held GPUs count while they are held"


def test_drain_stops_nothing_and_a_warning_cordons_nothing(cluster):
    attempt = cluster.running(gpus=2, restartable=True)
    take(cluster.node, finding(check="temperature", level="drain"), finding("gpu:0", "xid 31", "warn"))
    attempt.refresh_from_db()
    assert attempt.stop_reason == ""
    assert gpu(cluster.node).cordoned_at is not None
    assert gpu(cluster.node, 0).cordoned_at is None


@pytest.mark.parametrize(
    ("check", "stays"), [("temperature", False), ("script", False), ("xid 79", True), ("nvml", True)]
)
def test_a_cordon_for_what_passes_is_lifted_and_one_for_broken_hardware_stays(cluster, check, stays):
    take(cluster.node, finding(check=check, level="drain"))
    take(cluster.node)
    assert (gpu(cluster.node).cordoned_at is not None) is stays


def test_what_may_pass_by_itself_stops_no_job_whatever_an_agent_says(cluster):
    """A check that came and went would stop each job that was placed there in between."""
    attempt = cluster.running(gpus=2, restartable=True)
    for _ in range(3):
        take(cluster.node, finding(check="weather"))
        take(cluster.node)
    attempt.refresh_from_db()
    assert attempt.stop_reason == ""
    assert gpu(cluster.node).cordoned_at is None


def test_broken_hardware_outweighs_what_passes(cluster):
    take(cluster.node, finding(check="temperature", level="drain"))
    take(cluster.node, finding(check="temperature", level="drain"), finding())
    take(cluster.node)
    assert gpu(cluster.node).cordon_check == "xid 79"


def test_two_findings_of_which_one_passes_leave_the_other_s_cordon(cluster):
    script = finding(check="script", level="drain")
    take(cluster.node, finding(check="temperature", level="drain"), script)
    take(cluster.node, script)
    assert gpu(cluster.node).cordon_check == "script"


def test_an_operator_overrules_until_it_was_gone_and_came_again(cluster):
    olga = given.operator()
    hot = finding(check="temperature", level="drain")
    take(cluster.node, hot)
    cluster.node.refresh_from_db()
    gpu_resume(node=cluster.node, index=1, actor=olga)
    take(cluster.node, hot, finding("gpu:2", "ecc", "drain"))
    assert gpu(cluster.node).cordoned_at is None
    assert gpu(cluster.node, 2).cordoned_at is not None
    take(cluster.node)
    take(cluster.node, hot)
    assert gpu(cluster.node).cordoned_at is not None
    assert AuditEvent.objects.filter(action="gpu.resume", actor=olga).exists()


def test_an_operator_s_own_cordon_stays_whatever_the_checks_say(cluster):
    gpu_cordon(node=cluster.node, index=1, actor=given.operator(), reason="a bad fan")
    take(cluster.node, finding(check="temperature", level="drain"))
    take(cluster.node)
    assert gpu(cluster.node).cordon_reason == "a bad fan"
    with pytest.raises(BerthError):
        gpu_cordon(node=cluster.node, index=2, actor=None, reason=" ")
    with pytest.raises(NotFound):
        gpu_resume(node=cluster.node, index=77, actor=None)


def test_a_node_that_fails_a_check_is_drained_and_comes_back_by_itself(cluster):
    memory = finding("node", "memory", "drain", "Less than 256 MiB of its memory are free.")
    take(cluster.node, memory)
    node = Node.objects.get(pk=cluster.node.pk)
    assert node.health == "drained"
    assert node.drain_reason == "Less than 256 MiB of its memory are free. Reboot the node."
    take(cluster.node)
    assert Node.objects.get(pk=cluster.node.pk).health == "up"


def test_an_operator_s_drain_is_not_lifted_by_a_check(cluster):
    olga = given.operator()
    memory = finding("node", "memory", "drain", "Little memory.")
    take(cluster.node, memory)
    node_drain(node=Node.objects.get(pk=cluster.node.pk), actor=olga, reason="a new board")
    take(cluster.node)
    node = Node.objects.get(pk=cluster.node.pk)
    assert (node.health, node.drain_reason) == ("drained", "a new board")
    take(cluster.node, memory)
    node_resume(node=Node.objects.get(pk=cluster.node.pk), actor=olga)
    take(cluster.node, memory)
    assert Node.objects.get(pk=cluster.node.pk).health == "up", "she has seen it"


def test_a_gpu_that_a_stranger_uses_is_not_handed_out_until_the_stranger_is_gone(cluster):
    take(cluster.node, outside=[{"gpu": 2, "pid": 7, "name": "python", "memory_mib": 5.0}])
    assert gpu(cluster.node, 2).closed_because == "used by a process outside Berth"
    assert idle(cluster.node) == (3, (0, 1, 3))
    take(cluster.node)
    assert idle(cluster.node) == (4, (0, 1, 2, 3))
    assert kinds(cluster.node) == ["GPU used outside", "GPU free again"]


def test_a_finding_about_a_gpu_that_is_not_there_harms_nothing(cluster):
    take(cluster.node, finding("gpu:99"), outside=[{"gpu": 98, "pid": 7, "name": "x", "memory_mib": None}])
    assert kinds(cluster.node) == ["check failed"]


def boot(node, number, *uuids):
    gpus = [{"index": index, "uuid": uuid, "memory_mib": 16000} for index, uuid in enumerate(uuids)]
    node_hello(node=node, inventory=given.inventory(node, gpus=gpus, boot_id=f"boot-{number}"))


def cordoned(node):
    return {each.uuid for each in Gpu.objects.filter(node=node, cordoned_at__isnull=False)}


def test_a_cordon_goes_with_the_card_when_the_driver_numbers_the_others_anew(cluster):
    """Else a card that was lost left its cordon to a good one, and a bad one after it was given to jobs again."""
    boot(cluster.node, 2, "A", "B", "C", "D")
    gpu_cordon(node=cluster.node, index=1, actor=None, reason="B is broken")
    gpu_cordon(node=cluster.node, index=3, actor=None, reason="D is broken")
    boot(cluster.node, 3, "A", "C", "D")
    assert [gpu(cluster.node, index).cordon_reason for index in range(3)] == ["", "", "D is broken"]
    assert cordoned(cluster.node) == {"B", "D"}
    assert "GPUs renumbered" in kinds(cluster.node)
    boot(cluster.node, 4, "A", "B", "C", "D")
    assert [gpu(cluster.node, index).cordon_reason for index in range(4)] == ["", "B is broken", "", "D is broken"]
    assert not Gpu.objects.filter(node=cluster.node).exclude(missing_since=None).exists()


def test_a_new_card_in_the_place_of_a_cordoned_one_waits_for_an_operator(cluster):
    boot(cluster.node, 2, "A", "B")
    gpu_cordon(node=cluster.node, index=1, actor=None, reason="look at its slot")
    boot(cluster.node, 3, "A", "new")
    assert gpu(cluster.node).cordon_reason == "look at its slot"


def test_a_finding_told_many_times_at_once_is_one(cluster):
    take(cluster.node, *[finding()] * 60)
    assert kinds(cluster.node) == ["check failed", "GPU cordoned"]
    assert len(Node.objects.get(pk=cluster.node.pk).findings) == 1


def test_what_checks_told_long_ago_is_forgotten_and_what_people_did_is_not(cluster):
    """A check that came and went each minute filled the table for ever."""
    node_drain(node=cluster.node, actor=given.operator(), reason="a new board")
    NodeEvent.objects.create(node=cluster.node, kind="registered")
    take(cluster.node, finding(check="script", level="drain"))
    NodeEvent.objects.update(at=timezone.now() - timedelta(days=91))
    take(cluster.node)
    assert kinds(cluster.node) == ["drained", "registered", "check failed", "GPU cordoned", "GPU resumed"]
    roll_up()
    assert kinds(cluster.node) == ["drained", "registered", "GPU resumed"]
