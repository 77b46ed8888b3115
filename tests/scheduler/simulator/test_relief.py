"""CPU jobs that take a node's memory bandwidth from training jobs are held back in the simulator (CODA V-D; section 9)."""

from dataclasses import replace

import pytest

from scheduler.contention import Cause
from scheduler.parameters import Parameters
from scheduler.simulator.engine import Engine
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import Hints, World
from scheduler.simulator.world.tuning import CoreBound
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import by_job, clock, run, traced

GBS = 100.0
HOG_GBS = 150.0
PERIOD_S = Parameters().relieve_period_s


def training(number, *, sensitivity=0.6, optimum=2, work=3600.0, **more):
    law = CoreBound(optimum, sensitivity)
    return traced(number, 1, law=law, work=work, hints=Hints(), category="cv", **{"cores": optimum, **more})


def hog(number, *, cores=4, work=1200.0, gbs=HOG_GBS, **more):
    return traced(number, cores=cores, work=work, bandwidth_gbs=gbs, **more)


def made(jobs, *, cores=8, relieves=True, **world):
    return run(jobs, [node(1, 2, cores=cores)], bandwidth_gbs={1: GBS}, relieves_memory=relieves, **world)


def orders(jobs, **world):
    engine = Engine(
        jobs,
        World([node(1, 2, cores=8)], bandwidth_gbs={1: GBS}, relieves_memory=True, **world),
        parameters_for("fifo", {"tick_s": 30}),
        seed=1,
        clock=clock(),
    )
    engine.run()
    return [(at_s, order.job, order.share, order.cause) for at_s, _, order in engine.simulated.relief.orders]


def test_the_training_job_has_its_speed_back_after_one_period():
    """150 of 100 GB/s take all of its 60 %: a period of that, then the hog has half and presses no more."""
    jobs = [training(1), hog(2, at_s=600)]
    left, helped = (by_job(made(jobs, relieves=relieves)) for relieves in (False, True))
    assert left[1].ran_s == pytest.approx(3600 + 0.6 * 1200)
    assert helped[1].ran_s == pytest.approx(3600 + 0.6 * PERIOD_S)


def test_the_hog_works_as_much_slower_and_is_released_when_there_is_nobody_to_help():
    jobs = [training(1, work=1800.0), hog(2, at_s=600, work=2000.0)]
    helped = by_job(made(jobs))
    ended_s = 1800 + 0.6 * PERIOD_S
    throttled_s = ended_s + PERIOD_S - (600 + PERIOD_S)  # released at the end of the period in which the training ended
    assert helped[2].ran_s == pytest.approx(2000 + throttled_s / 2, abs=PERIOD_S / 2)
    assert [each[1:] for each in orders(jobs)] == [(2, 0.5, Cause.HURT), (2, 1.0, Cause.GONE)]


def test_a_job_that_begins_beside_the_traffic_is_helped_by_trial():
    jobs = [hog(1, work=7200.0), training(2, at_s=600)]
    assert [each[1:] for each in orders(jobs)][:1] == [(1, 0.5, Cause.TRIAL)]
    assert by_job(made(jobs))[2].ran_s == pytest.approx(3600 + 0.6 * PERIOD_S)


def test_cores_that_are_given_back_serve_other_jobs_meanwhile():
    """The hog's two released cores start the CPU job that waits for them."""
    jobs = [training(1), hog(2, at_s=600, work=7200.0), traced(3, cores=4, work=100, at_s=610)]
    waiting, helped = (by_job(made(jobs, relieves=relieves)) for relieves in (False, True))
    assert waiting[3].started_s > 3600
    assert helped[3].started_s == pytest.approx(600 + PERIOD_S)


def test_released_cores_are_taken_again_as_they_become_idle():
    """When the training has ended, two of the hog's cores are another's: it works by what it has until they are idle."""
    jobs = [
        training(1, work=900.0),
        hog(2, at_s=600, work=3000.0),
        traced(3, cores=4, work=1000, at_s=610),
        traced(4, cores=2, work=3000, at_s=620),  # starts on the training's cores
    ]
    records = by_job(made(jobs))
    whole_s, half_from_s = 3000.0, 600 + PERIOD_S
    half_until_s = records[3].ended_s
    assert records[2].ran_s == pytest.approx(whole_s + (half_until_s - half_from_s) / 2, abs=PERIOD_S)


def test_a_training_job_that_does_not_mind_costs_the_traffic_one_period():
    assert [each[1:] for each in orders([training(1, sensitivity=0.0), hog(2, at_s=600)])] == []
    tried = orders([hog(1, work=7200.0), training(2, sensitivity=0.0, at_s=600)])
    assert [each[1:] for each in tried] == [(1, 0.5, Cause.TRIAL), (1, 1.0, Cause.HARMLESS)]


def test_the_search_for_cores_is_not_led_astray():
    """Steps in which the memory was fought for are made again: the optimum of 2 is found as without the hog."""
    jobs = [training(1, optimum=4, work=7200.0), hog(2, at_s=100, cores=1, work=3000.0)]
    found = {
        name: by_job(made(each, tunes_cores=True))[1].ran_s
        for name, each in {"alone": jobs[:1], "beside": jobs}.items()
    }
    assert found["beside"] - found["alone"] <= 2 * 90


def test_cores_are_searched_again_after_a_slowing_has_ended_once_an_hour():
    """The hog is tried when the second training comes, and let go, for it harmed nobody: the first is searched again."""

    def ran_s(at_s):
        jobs = [training(1, work=14400.0), hog(2, at_s=at_s - 300, cores=1, work=900.0), training(3, at_s=at_s)]
        jobs = [replace(each, law=CoreBound(2)) if each.job.id != 2 else each for each in jobs]
        return by_job(
            run(jobs, [node(1, 2, cores=24)], bandwidth_gbs={1: GBS}, relieves_memory=True, tunes_cores=True)
        )[1].ran_s

    search_s = 90 * 0.004 + 90 * 0.5  # from 2, the number found before: one fewer, one more
    assert ran_s(7200) - ran_s(1800) == pytest.approx(search_s)


def test_the_same_again():
    jobs = [training(1), hog(2, at_s=600), hog(3, at_s=900, gbs=90.0), training(4, at_s=1000)]
    assert orders(jobs) == orders(jobs)
