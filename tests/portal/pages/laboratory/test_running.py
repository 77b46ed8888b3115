"""One simulation at a time, by a worker that may die at any time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.foundation.events.models import OutboxMessage
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.run import worker as running
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.selectors import curves_of
from portal.pages.laboratory.services import expire, simulation_cancel
from portal.planning.rounds.models import OperatorSetting
from tests.portal.pages.laboratory.lab import order, simulated

pytestmark = pytest.mark.django_db


def timeless(figures):
    return {name: value for name, value in figures.items() if not name.startswith("solve_")}


def test_a_simulation_answers_the_same_each_time(tenant, lena):
    first, second = (simulated(tenant, lena, policies=["fifo", "berth"]) for _ in range(2))
    assert (first.state, first.error) == ("COMPLETED", "")
    assert list(first.figures) == ["fifo", "berth"]
    assert first.progress == {"fifo": 1.0, "berth": 1.0}
    assert set(first.figures["fifo"]["tenants"]) == {"vision", "speech"}
    for policy in first.policies:
        assert timeless(first.figures[policy]) == timeless(second.figures[policy])
        assert timeless(curves_of(first)[policy]) == timeless(curves_of(second)[policy])
    # By hand: 8 GPUs wait for 4 of them to be free at 600 s, then run 600 s; FIFO lets nobody pass.
    assert first.figures["fifo"]["makespan_h"] == pytest.approx(1260 / 3600)


def test_a_drawn_workload_on_its_own_cluster(tenant, lena):
    done = simulated(tenant, lena, generator="hops-64", generated_jobs=3, cluster="", policies=["fifo"])
    assert done.state == "COMPLETED", done.error
    assert done.figures["fifo"]["jobs"] == 3


def test_drawn_jobs_run_on_a_cluster_of_gpu_types_that_their_generator_does_not_know(tenant, lena):
    slow, fast = (
        simulated(
            tenant,
            lena,
            generator="hops-64",
            generated_jobs=3,
            policies=["fifo", "berth"],
            name=name,
            cluster="nodes: [{count: 2, gpu_type: RTX 3090, gpus: 8, cores: 64, memory_gib: 256}]\n"
            f"gpu_types: {{RTX 3090: {{speed: {speed}}}}}",
        )
        for name, speed in (("slow", 1.0), ("fast", 2.0))
    )
    assert (slow.state, fast.state, slow.error, fast.error) == ("COMPLETED", "COMPLETED", "", "")
    for policy in ("fifo", "berth"):
        assert slow.figures[policy]["jobs_completed"] == 3
        assert fast.figures[policy]["mean_jct_h"] < slow.figures[policy]["mean_jct_h"]


def test_nothing_waits(tenant):
    assert simulation_next() is None


def test_the_oldest_is_next(tenant, lena):
    first, second = order(tenant, lena), order(tenant, lena)
    assert [simulation_next(), simulation_next(), simulation_next()] == [first.pk, second.pk, None]


def test_cancelled_while_it_runs_it_stops_and_says_so(tenant, lena, monkeypatch):
    made = order(tenant, lena)
    true_inputs = running.inputs_of

    def inputs_then_cancel(simulation):
        simulation_cancel(simulation=Simulation.objects.get(pk=simulation.pk), actor=lena)
        return true_inputs(simulation)

    monkeypatch.setattr(running, "inputs_of", inputs_then_cancel)
    simulation_next()
    made.refresh_from_db()
    assert (made.state, made.figures) == ("CANCELLED", {})
    assert made.ended_at is not None


def test_longer_than_the_operator_allows_it_fails_and_says_what_to_do(tenant, lena, monkeypatch):
    OperatorSetting.objects.create(name="laboratory_minutes", value=1)
    clock = iter(range(0, 10_000, 30))
    monkeypatch.setattr(running.time, "monotonic", lambda: next(clock))
    made = order(tenant, lena)
    simulation_next()
    made.refresh_from_db()
    assert made.state == "FAILED"
    assert "laboratory_minutes" in made.error


def test_a_fault_of_ours_fails_it_and_the_next_one_goes_on(tenant, lena, monkeypatch):
    broken, sound = order(tenant, lena), order(tenant, lena)
    with monkeypatch.context() as patch:
        patch.setattr(running, "inputs_of", lambda _: 1 / 0)
        simulation_next()
    simulation_next()
    broken.refresh_from_db()
    sound.refresh_from_db()
    assert (broken.state, sound.state) == ("FAILED", "COMPLETED")
    assert "ZeroDivisionError" in broken.error


def died(simulation):
    """Its worker was killed a while ago."""
    long_ago = timezone.now() - timedelta(seconds=running.STALE_S + 1)
    Simulation.objects.filter(pk=simulation.pk).update(state="RUNNING", holder="gone", heartbeat_at=long_ago)


def test_a_worker_that_died_gives_it_to_the_next_twice_at_most(tenant, lena):
    made = order(tenant, lena)
    died(made)
    Simulation.objects.filter(pk=made.pk).update(tries=1)
    assert simulation_next() == made.pk
    made.refresh_from_db()
    assert (made.state, made.tries) == ("COMPLETED", 2)
    died(made)
    assert simulation_next() is None
    made.refresh_from_db()
    assert made.state == "FAILED"
    assert "died twice" in made.error


def test_cancelling_needs_no_living_worker(tenant, lena):
    made = order(tenant, lena)
    died(made)
    simulation_cancel(simulation=made, actor=lena)
    assert simulation_next() is None
    made.refresh_from_db()
    assert made.state == "CANCELLED"


def test_who_lost_it_writes_nothing(tenant, lena, monkeypatch):
    """A worker that was silent too long wakes up while another works on it: the other's answer stands."""
    made = order(tenant, lena)
    true_inputs = running.inputs_of

    def inputs_then_lose(simulation):
        Simulation.objects.filter(pk=simulation.pk).update(holder="another")
        return true_inputs(simulation)

    monkeypatch.setattr(running, "inputs_of", inputs_then_lose)
    simulation_next()
    made.refresh_from_db()
    assert (made.state, made.holder, made.figures) == ("RUNNING", "another", {})


def test_old_answers_expire(tenant, lena):
    done, waiting = simulated(tenant, lena), order(tenant, lena)
    Simulation.objects.filter(pk=done.pk).update(ended_at=timezone.now() - timedelta(days=91))
    assert expire(keep_days=90) == 1
    assert list(Simulation.objects.all()) == [waiting]


def told(topic="simulation"):
    """The users that got the message that it moved, oldest first."""
    rows = OutboxMessage.objects.filter(payload__topic=topic).order_by("pk").values_list("stream", flat=True)
    return list(rows)


def test_pages_are_told_that_it_began_and_ended_and_that_others_moved_up(tenant, lena):
    first = order(tenant, lena)
    waiting = order(tenant, lena, trace=LabTrace.objects.get())
    OutboxMessage.objects.all().delete()
    simulation_next()
    assert told() == [f"simulation:{each.pk}" for each in (first, first, waiting)]
    OutboxMessage.objects.all().delete()
    simulation_cancel(simulation=waiting, actor=lena)
    assert told() == [f"simulation:{waiting.pk}"]
