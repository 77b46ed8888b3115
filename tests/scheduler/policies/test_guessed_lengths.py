"""Berth where nobody tells a length: order, weights, the arrays' border, reservations and urgency; and the same as ever where they do."""

from dataclasses import replace

import pytest

from scheduler.fairness.lrf import Age
from scheduler.fairness.priorities import PRIORITIES, Moment, latency_ratio_as_known, order
from scheduler.fairness.reservation import late_end_s, soonest, starving, waited_for
from scheduler.model import Piece, Ranked, Running
from scheduler.placement.free_capacity import Offer
from scheduler.replan.early import pressing
from tests.scheduler.builders import NOW_S, job, make_plan, node, past_of, where

GUESS = 2.0


def queue(*jobs, spreads):
    return order(jobs, latency_ratio_as_known, Moment(NOW_S), lambda each: Age(600.0, "test", spreads[each.id]))


def guessed(number, *requirement, **more):
    return job(number, *requirement, age_s=None, **more)


def test_among_guessed_lengths_the_fewest_gpus_go_first_and_all_weigh_alike():
    jobs = [guessed(1, 8, wait_s=900.0), guessed(2, 1, wait_s=600.0), guessed(3, 2, wait_s=600.0)]
    found = queue(*jobs, spreads=dict.fromkeys((1, 2, 3), GUESS))
    assert [each.job.id for each in found] == [2, 3, 1]
    assert {each.prior for each in found} == {1.0}
    assert [each.latency_ratio for each in found] == [1.0, 1.0, 1.5], "on pages it is what it is"


@pytest.mark.parametrize(("ratio", "first"), [(4.0, 2), (6.0, 1)])
def test_a_large_job_is_not_passed_by_newcomers_for_ever(ratio, first):
    jobs = [guessed(1, 8, wait_s=ratio * 600.0), guessed(2, 1, wait_s=0.0)]
    assert queue(*jobs, spreads={1: 3.0, 2: 3.0})[0].job.id == first


@pytest.mark.parametrize(("days", "first"), [(4.9, 2), (5.0, 1)])
def test_after_five_days_a_large_job_is_ordered_as_a_small_one(days, first):
    """For its size a job of 64 GPUs would have to wait for 4 months before it goes before a newcomer of one."""
    jobs = [guessed(1, 64, wait_s=days * 86_400.0), guessed(2, 1, wait_s=60.0)]
    assert queue(*jobs, spreads={1: 3.0, 2: 3.0})[0].job.id == first


def test_known_lengths_keep_their_ratios_and_guessed_ones_weigh_as_their_middle():
    jobs = [job(1, 8, wait_s=1200.0), job(2, 1, wait_s=2400.0), guessed(3, 1, wait_s=9e9)]
    priors = {each.job.id: each.prior for each in queue(*jobs, spreads={1: 0.4, 2: 0.0, 3: GUESS})}
    assert priors == {1: 2.0, 2: 4.0, 3: 3.0}


def test_one_who_declares_a_second_moves_no_guesses_before_who_declares_the_truth():
    """With the mean for the middle, the newcomer without a length went before all that wait for their declared ones."""
    true = [job(number, 1, wait_s=600.0) for number in range(1, 5)]
    jobs = [*true, job(8, 1, wait_s=600.0 * 3600), guessed(9, 1, wait_s=60.0)]
    found = queue(*jobs, spreads={**dict.fromkeys(range(1, 9), 0.4), 9: 3.0})
    assert [each.job.id for each in found] == [8, 1, 2, 3, 4, 9]
    assert found[-1].prior == 1.0


def test_with_known_lengths_the_order_is_that_of_the_latency_ratio():
    jobs = [job(number, 1 + number % 3, wait_s=float(number * 7919 % 500)) for number in range(1, 40)]
    plain = order(jobs, PRIORITIES["lrf"], Moment(NOW_S), lambda each: Age(600.0, "test"))
    assert queue(*jobs, spreads=dict.fromkeys(range(1, 40), 0.4)) == [replace(each, spread=0.4) for each in plain]


@pytest.mark.parametrize(("told", "starts"), [(600.0, [3]), (None, [1, 3])])
def test_the_border_between_small_and_large_jobs_stands_where_lengths_are_known(told, starts):
    """The small jobs' node is full; on the large ones' node there is room beside a large job that was placed, and another waits."""
    jobs = [
        job(1, 2, age_s=None, expected_duration_s=told),
        job(3, 4, age_s=None, expected_duration_s=told, wait_s=600.0),
        job(4, 8, age_s=None, expected_duration_s=told),
    ]
    made = make_plan([node(1, 8, idle=6), node(2, 2, idle=0)], jobs, large_array_share=1.0, sweep="off", policy="berth")
    assert sorted(where(made)) == starts


def test_no_nodes_are_kept_and_no_round_ends_for_a_guess():
    known = Ranked(job(1, 8), 1, 5.0, 5.0, 600.0, "declared", 0.4)
    guess = replace(known, spread=GUESS)
    assert starving([known], 1.0) is known
    assert starving([guess], 1.0) is None
    assert list(pressing([known], 1.0, NOW_S - 60, NOW_S)) == [1]
    assert starving([replace(guess, latency_ratio=719.0)], 1.0) is None
    assert starving([aged := replace(guess, latency_ratio=720.0)], 1.0) is aged, "but for one that waited for five days"
    assert starving([guess, known], 1.0) is known, "a guess before it takes nothing from a job of a known length"
    assert list(pressing([guess] * 8 + [known], 1.0, NOW_S - 60, NOW_S)) == [1]
    assert pressing([guess], 1.0, NOW_S - 60, NOW_S) == {}


def test_nodes_are_kept_for_ends_that_are_known_until_it_has_waited_for_days():
    live = Running(1, 1, (Piece(1, tuple(range(8)), tuple(range(32)), 0),), NOW_S - 600, expected_end_s=NOW_S + 600)
    wild = replace(live, spread=GUESS)
    waits = Ranked(job(1, 8), 1, 5.0, 5.0, 600.0, "declared", 0.4)
    assert waited_for(waits, [live, wild]) == [live]
    for spread, ratio, long in ((0.4, 143.0, False), (0.4, 144.0, True), (GUESS, 719.0, False), (GUESS, 720.0, True)):
        aged = replace(waits, latency_ratio=ratio, spread=spread)
        assert waited_for(aged, [live, wild]) == [live, wild][: 1 + long]
    found = soonest(job(1, 8), [Offer(node(1, 8), 0, 0, 256_000)], [live], {"a100": 8}, NOW_S)
    assert found
    assert found.until_s == NOW_S + 600


def test_a_guessed_end_counts_on_what_earlier_attempts_ran():
    """It was expected to run for an hour, ran for five, and was stopped: it is not expected to end a second after it goes on."""
    live = Running(1, 1, (Piece(1, (0,), (0,), 0),), NOW_S - 60, expected_end_s=NOW_S - 60, spread=GUESS)
    fresh = replace(live, age_s=3600.0, expected_end_s=NOW_S + 3540)
    again = replace(live, age_s=3600.0, ran_s=18_000.0)
    assert late_end_s(again, NOW_S) > late_end_s(fresh, NOW_S) > NOW_S + 3600
    assert late_end_s(again, NOW_S) > NOW_S + 18_000


def test_a_service_learns_from_the_record_who_is_like_whom():
    history = past_of(*[(60.0 + k % 3, 1, "cv") for k in range(60)])
    jobs = [guessed(1, 1, category="cv", wait_s=60.0), guessed(2, 1, tenant=2, category="nlp", wait_s=60.0)]
    made = make_plan([node(1, 8)], jobs, history=history, policy="berth")
    assert [each.age_source for each in made.decisions] == ["owner's jobs of the size", "jobs of the size"]


@pytest.mark.parametrize(("told_s", "starts"), [(60.0, [2]), (7200.0, []), (None, [])])
def test_on_reserved_nodes_only_those_start_of_whom_it_is_known_that_they_end_before(told_s, starts):
    """A stream of jobs without lengths kept a node from ever getting empty: each was expected to end before the last of those there."""
    live = [Running(9, 2, (Piece(1, (0, 1, 2, 3), (0, 1, 2, 3), 0),), NOW_S - 60, (4,), expected_end_s=NOW_S + 900)]
    jobs = [
        job(1, 8, age_s=None, expected_duration_s=600.0, wait_s=9000.0),
        job(2, 1, age_s=None, expected_duration_s=told_s, tenant=2),
    ]
    past = past_of(*[(60.0 + k % 3, 2, None) for k in range(60)])
    made = make_plan([node(1, 8, idle=4)], jobs, running=live, history=past, policy="berth", arrays="off")
    assert sorted(where(made)) == starts
    assert made.metrics.idle_beside_fitting == 0
