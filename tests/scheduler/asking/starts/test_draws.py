"""What forecasts know beside the queue: re-plans, what ran before, limits, and who will come."""

import numpy as np
import pytest

from scheduler.asking.forecast import NOTHING, Reach, forecast
from scheduler.asking.starts.runtimes import PastRun, RunTimes
from scheduler.asking.starts.scene import Experience
from scheduler.model import ClusterState, Running
from scheduler.parameters import Parameters
from tests.scheduler.builders import NOW_S, job, node, running, ticking

KNOBS = Parameters(policy="berth", tick_s=5.0, replan_s=60.0, restart_cost_s=5.0)


def drawn(nodes, jobs, *, live=(), knobs=KNOBS, experience=NOTHING, **state):
    found = forecast(
        ClusterState(nodes, jobs, live, **state),
        NOW_S,
        knobs,
        np.random.default_rng(1),
        ticking(),
        reach=Reach(draws=3),
        experience=experience,
    )
    return {number: each.drawn for number, each in found.items()}


def elastic(number, where, gpus):
    shown = job(number, 1, 2, 4, movable=True, age_s=36_000.0)
    return Running(
        number,
        shown.tenant,
        running(0, 1, where, gpus, gpus).pieces,
        NOW_S - 900,
        (1, 2, 4),
        elastic=True,
        movable=True,
        expected_end_s=NOW_S + 30_000,
        description=shown,
        first_started_s=NOW_S - 900,
    )


def test_a_running_elastic_job_shrinks_at_the_next_replan():
    """The node is full for hours, but for the re-plan that is due in 30 s: it takes what an elastic job can do without."""
    given = {"live": [elastic(90, 1, 4)], "replanned_s": NOW_S - 30}
    full = [node(1, 4, idle=0, idle_cores=28)]
    waiting = [job(1, 1, wait_s=50.0, age_s=40.0)]
    soon = drawn(full, waiting, **given)[1]
    assert 30 <= soon.low_s <= soon.high_s < 120
    never = drawn(full, waiting, knobs=Parameters(policy="coda", tick_s=5.0), **given)[1]
    assert never.low_s > 3_600


@pytest.mark.slow
def test_a_long_queue_of_short_jobs_goes_on_as_fast_as_the_cluster_is():
    """160 jobs of five minutes on 8 GPUs: the last starts after about 19 rounds. In steps of a tenth of an hour and more, in
    which what ended stood idle, it was foretold for three times that.
    """
    waiting = [job(number, 1, age_s=300.0, wait_s=1_000.0 - number) for number in range(1, 161)]
    last = drawn([node(1, 8)], waiting)[160]
    assert 0.8 * 19 * 300 < last.middle_s < 1.5 * 19 * 300


def test_a_running_jobs_rest_is_of_its_owners_past_not_of_a_namesake_tenants():
    """Owner 7 of tenant 9 runs ten times as long as declared; owner 9, in another tenant, a tenth."""
    past = [
        PastRun(owner, 300.0 * ratio, 300.0, ended=True, sizes=(1,))
        for owner, ratio in ((7, 10.0), (9, 0.1))
        for _ in range(40)
    ]
    pieces = running(0, 9, 1, 1, 1).pieces
    live = [Running(90, 9, pieces, NOW_S - 60, (1,), expected_end_s=NOW_S + 240, owner=7)]
    known = Experience(RunTimes(past))
    soon = drawn([node(1, 1, idle=0, idle_cores=7)], [job(1, 1)], live=live, experience=known)[1]
    assert soon.middle_s > 1_000


def test_who_comes_may_go_first():
    """On one GPU a long job waits behind one that runs. Short ones keep coming, and their latency ratio grows faster."""
    live = [Running(90, 9, running(0, 9, 1, 1, 1).pieces, NOW_S - 1, (1,), expected_end_s=NOW_S + 600)]
    nodes, waiting = [node(1, 1, idle=0, idle_cores=7)], [job(1, 1, age_s=50_000.0)]
    came = [job(100 + k, 1, age_s=300.0, submitted_s=NOW_S - 3_600 + 225 * k) for k in range(16)]
    alone = drawn(nodes, waiting, live=live)[1]
    beside = drawn(nodes, waiting, live=live, experience=Experience(arrived=came, since_s=NOW_S - 3_600))[1]
    assert beside.high_s > 2 * alone.high_s
    assert beside.low_s == alone.low_s  # in only one draw of three
    assert drawn(nodes, waiting, live=live, experience=Experience(arrived=came))[1] == alone  # since when is not known


def seen(**known):
    """What job 1 waits on a full node for job 90, which declared 100 s and has run for 20 s in its present attempt."""
    pieces = running(0, 9, 1, 1, 1).pieces
    live = [Running(90, 9, pieces, NOW_S - 20, (1,), expected_end_s=NOW_S - 10, owner=7)]
    return drawn([node(1, 1, idle=0, idle_cores=7)], [job(1, 1)], live=live, experience=Experience(**known))[1]


def test_a_run_that_goes_on_is_drawn_as_a_whole():
    """It ran for 90 s before, so 110 of 100 s by now, where jobs take half as long again: 40 s are left. Taken alone, the rest
    of 10 s has lasted twice as long as it should, which no job ever did.
    """
    past = RunTimes([PastRun(7, 150.0, 100.0, ended=True, sizes=(1,)) for _ in range(300)])
    assert 30 <= seen(run_times=past, ran_s={90: 90.0}).middle_s <= 50
    assert seen(run_times=past).middle_s < 30


def test_a_run_past_its_age_is_measured_by_its_age():
    """What ran for 290 of 100 s before is nearly through where jobs take three times as long."""
    past = RunTimes([PastRun(7, 330.0, 100.0, ended=True, sizes=(1, 2)) for _ in range(300)])
    shown = job(90, 1, 2, movable=True, age_s=100.0)
    pieces = running(0, 1, 1, 1, 1).pieces
    given = {"expected_end_s": NOW_S - 20, "elastic": True, "movable": True, "description": shown, "owner": 7}
    live = Running(90, 1, pieces, NOW_S - 20, (1, 2), **given)
    known = Experience(past, ran_s={90: 290.0})
    full = [node(1, 1, idle=0, idle_cores=7)]
    soon = drawn(full, [job(1, 1)], live=[live], experience=known, replanned_s=NOW_S)[1]
    assert 15 <= soon.middle_s <= 30


def test_who_waits_again_runs_only_for_what_is_left():
    """Job 1 was stopped after 270 of its 300 s; who waits behind it on the one GPU waits for the rest."""
    waiting = [job(1, 1, age_s=300.0, wait_s=900.0, movable=True), job(2, 1, age_s=300.0, wait_s=1.0)]
    past = RunTimes([PastRun(1, 300.0, 300.0, ended=True, sizes=(1,)) for _ in range(300)])
    whole = drawn([node(1, 1)], waiting, experience=Experience(past))[2]
    rest = drawn([node(1, 1)], waiting, experience=Experience(past, ran_s={1: 270.0}))[2]
    assert whole.middle_s >= 290
    assert rest.middle_s <= 60


def test_nobody_runs_for_longer_than_the_limit():
    """Both declare half an hour, and are ended after five minutes."""
    pieces = running(0, 9, 1, 1, 1).pieces
    live = [Running(90, 9, pieces, NOW_S - 60, (1,), expected_end_s=NOW_S + 1740)]
    full = [node(1, 1, idle=0, idle_cores=7)]
    waiting = [job(1, 1, age_s=1_800.0, wait_s=900.0), job(2, 1, age_s=1_800.0, wait_s=1.0)]
    found = drawn(full, waiting, live=live, experience=Experience(limits_s={90: 300.0, 1: 300.0}))
    assert 200 <= found[1].high_s <= 260
    assert found[2].high_s <= 600
