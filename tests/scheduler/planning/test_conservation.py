"""What a plan leaves idle beside a job that fits, counted: as few questions as there are kinds of jobs."""

import pytest

from scheduler.planning import conservation
from tests.scheduler.builders import job, make_plan, node


@pytest.fixture
def asked(monkeypatch):
    """The jobs that nodes were asked about."""
    found = []
    holding = conservation._Nodes.holding

    def counted(nodes, job, barred, **more):
        found.append(job.id)
        return holding(nodes, job, barred, **more)

    monkeypatch.setattr(conservation._Nodes, "holding", counted)
    return found


def test_a_queue_of_as_many_amounts_of_memory_as_jobs_is_asked_about_once(asked):
    """Seen with 100 000 of them: counting took longer than all that was planned."""
    strict = [job(1, 16, wait_s=900), *(job(k, 1, memory_mib=1000 - k, wait_s=60) for k in range(2, 80))]
    made = make_plan([node(1), node(2, 16, idle=0)], strict, policy="fifo")
    assert made.metrics.idle_beside_fitting == 8
    assert len(asked) == 1


@pytest.mark.parametrize(("memory_mib", "idle"), [((70_000, 90_000), 0), ((70_000, 60_000), 4), ((90_000, 20_000), 8)])
def test_the_job_that_asks_for_least_memory_speaks_for_its_kind(asked, memory_mib, idle):
    nodes = [node(1, 4, memory_mib=30_000), node(2, 4, memory_mib=65_000), node(3, 16, idle=0)]
    strict = [job(1, 16, wait_s=900), *(job(k, 2, memory_mib=each) for k, each in enumerate(memory_mib, start=2))]
    assert make_plan(nodes, strict, policy="fifo").metrics.idle_beside_fitting == idle
    assert len(asked) == 1
