"""The rules of the simulator that published Shockwave's results, on small traces by hand and on the public one (section 13)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from research.simulator.validity import PUBLISHED, equal_time, figures, simulate_as_published
from tests.scheduler.simulator.cases import by_job, clock, traced


def published(jobs, gpus):
    return by_job(simulate_as_published(jobs, gpus, "v100", clock=clock()))


def movable(number, *requirement, **more):
    return traced(number, *requirement, movable=True, **more)


def test_equal_gpu_time_with_more_jobs_than_gpus():
    assert equal_time([1, 1, 2], 2).tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3])


def test_with_fewer_jobs_the_middle_of_what_is_optimal():
    """Job 2 may have any fraction from 1/4 to 3/4 (what 4 GPUs leave it): the middle, for both bounds count alike."""
    one, two = equal_time([1, 4], 4)
    assert one == 1.0
    bound = 0.75 - 0.25
    part = two - 0.25
    assert 1 / part - 1 / (0.75 - part) - 1 / (bound - part) == pytest.approx(0, abs=1e-6)


def test_with_gpus_for_all_larger_jobs_still_have_less_than_all_time():
    assert equal_time([1], 4).tolist() == [1.0]
    one, two = equal_time([1, 2], 4)
    assert one == 1.0
    assert 0.7 < two < 0.75, "half way from 1/2 to 1, but for the GPU that stays idle"


def test_rounds_of_two_jobs_on_one_gpu():
    """Job 1 runs 0-120, job 2 120-360 and ends at 340: 20 s of its first round are lost. Job 1 is back at 360, not at 340,
    loses 20 s too, and has the last of its 240 s at 500.
    """
    made = published([movable(1, 1, work=240.0), movable(2, 1, work=200.0)], 1)
    assert (made[1].started_s, made[2].started_s) == (0.0, 120.0)
    assert made[2].ended_s == 120 + 20 + 200
    assert made[1].ended_s == 360 + 20 + 120


def test_who_comes_within_1000_s_of_a_reset_waits_for_the_next():
    """The first reset that counts is job 2's, at 240 s; job 3 is seen at 360 s and waits for 1 320 s beside an idle GPU."""
    jobs = [movable(1, 1, work=3000.0), movable(2, 1, work=3000.0, at_s=130.0), movable(3, 1, work=100.0, at_s=250.0)]
    made = published(jobs, 3)
    assert (made[2].started_s, made[3].started_s) == (240.0, 1320.0)
    assert made[3].ended_s == 1320 + 20 + 100


def test_the_published_figures():
    """Shockwave's 120 jobs on 32 V100: makespan and mean JCT within 1 % of the published ones."""
    if "BERTH_TRACE_DATA" not in os.environ:
        pytest.skip("BERTH_TRACE_DATA names no folder with shockwave/120_multigpu_dynamic.trace")
    from research.experiments.validity import GPU_TYPE, GPUS, jobs_of

    jobs = jobs_of(Path(os.environ["BERTH_TRACE_DATA"]) / "shockwave")
    found = figures(simulate_as_published(jobs, GPUS, GPU_TYPE, clock=clock()))
    assert found == {name: pytest.approx(value, rel=0.01) for name, value in PUBLISHED.items()}
