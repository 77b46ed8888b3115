"""A round ends early for a running job that would gain by what stands idle (docs/decisions/0166)."""

from dataclasses import replace

import pytest

from scheduler.model.speeds import Cell, CellKey, Knowledge
from tests.scheduler.builders import NOW_S, job, make_plan, node
from tests.scheduler.replan.test_replans import elastic

KNOBS = {"policy": "berth", "arrays": "off", "replan_s": 360, "replan_early_s": 60, "restart_cost_s": 10}


def growing(**more):
    """A job on two of eight GPUs, for half an hour; `more`: of the attempt."""
    live = elastic(1, 2, 4, 8, gpus=2, started_s=NOW_S - 1800.0)
    return replace(live, **({"description": replace(live.description, model_label="m")} | more))


def speeds(*, four=1.9, eight=3.6):
    """Samples a second of two GPUs, and how many times as fast four and eight are."""
    known = {2: 10.0, 4: 10.0 * four, 8: 10.0 * eight}
    cells = {CellKey("tenant:1:m", "a100", gpus=gpus): Cell(3, speed / gpus, 0.0) for gpus, speed in known.items()}
    return Knowledge(cells=cells)


def ends(live=None, waiting=(), *, since_s=120.0, knowledge=None, idle=6, **knobs):
    """Whether the round ends with this planning."""
    live = growing() if live is None else live
    nodes = [node(1, 8, idle=idle, idle_cores=8)]
    given = {"running": [live], "knowledge": knowledge or speeds(), "replanned_s": NOW_S - since_s}
    return make_plan(nodes, list(waiting), **given, **(KNOBS | knobs)).replan_early


def test_the_round_ends_for_a_job_that_would_gain_by_what_stands_idle():
    assert ends()


@pytest.mark.parametrize("since_s", [0.0, 59.0])
def test_not_sooner_after_the_last_re_plan_than_the_knob_says(since_s):
    assert not ends(since_s=since_s)


def test_not_for_less_than_the_restart_and_a_tenth():
    assert not ends(knowledge=speeds(four=1.05, eight=1.1))


def test_for_a_young_job_where_the_larger_size_is_not_known_yet():
    """F is 61 / 71 after a minute; what it has left may ask for less, and where that is little for more."""
    knowledge = speeds(four=1.2, eight=1.2)
    guessed = Knowledge({key: replace(cell, count=int(key.gpus == 2)) for key, cell in knowledge.cells.items()})

    def told(left_s):
        live = growing()
        description = replace(live.description, model_label="m", total_samples=10.0 * left_s)
        return growing(started_s=NOW_S - 61.0, first_started_s=NOW_S - 61.0, description=description)

    assert not ends(told(600.0), knowledge=knowledge)
    assert ends(told(600.0), knowledge=guessed)
    assert not ends(told(20.0), knowledge=guessed)


def test_not_for_what_others_hold():
    rest = elastic(2, 6, gpus=6, first=2)
    nodes = [node(1, 8, idle=0, idle_cores=8)]
    given = {"running": [growing(), rest], "knowledge": speeds(), "replanned_s": NOW_S - 120.0}
    assert not make_plan(nodes, [], **given, **KNOBS).replan_early


def test_not_for_what_this_planning_gives_to_who_waits():
    assert not ends(waiting=[job(7, 6)])


@pytest.mark.parametrize("more", [{"movable": False, "elastic": False, "description": None}, {"stopping": True}])
def test_not_for_who_may_not_be_changed(more):
    assert not ends(growing(**more))


def test_not_for_who_has_just_got_other_gpus():
    assert not ends(growing(started_s=NOW_S - 30.0, first_started_s=NOW_S - 1800.0))


@pytest.mark.parametrize("knobs", [{"replan_early_s": None}, {"gain": "linear"}, {"policy": "hops"}])
def test_not_where_rounds_do_not_end_early_or_changes_need_not_pay(knobs):
    assert not ends(**knobs)


def test_the_re_plan_that_follows_gives_the_job_what_stood_idle():
    given = {"running": [growing()], "knowledge": speeds(), "replanned_s": NOW_S - 120.0, "replan": True}
    made = make_plan([node(1, 8, idle=6, idle_cores=8)], [], **given, **KNOBS)
    assert [(order.job, order.to_gpus) for order in made.stops] == [(1, 8)]


def grown(**more):
    """The job on all eight GPUs."""
    live = elastic(1, 2, 4, 8, gpus=8, started_s=NOW_S - 1800.0)
    return replace(live, description=replace(live.description, model_label="m"), **more)


def came(ago_s, number=7):
    return job(number, 2, submitted_s=NOW_S - ago_s, wait_s=ago_s, age_s=36_000.0)


def test_the_round_ends_for_who_came_since_the_last_re_plan_when_others_have_grown():
    assert ends(grown(), [came(30)], idle=0, knowledge=speeds(four=1.3, eight=1.6))


@pytest.mark.parametrize(("age_s", "at_once"), [(36_000.0, False), (1600.0, False), (1500.0, True), (600.0, True)])
def test_it_ends_for_the_oldest_unless_waiting_until_then_would_be_noticed(age_s, at_once):
    """Who came 30 s ago may have GPUs of the younger at once; the older was moved 20 s ago, and may be changed in 40 s."""
    older = grown(started_s=NOW_S - 20.0, first_started_s=NOW_S - 3000.0)
    younger = elastic(2, 2, 4, 8, on=2, started_s=NOW_S - 1800.0)
    running = [older, replace(younger, description=replace(younger.description, model_label="m"))]
    nodes = [node(number, 8, idle=0, idle_cores=8) for number in (1, 2)]
    given = {"running": running, "knowledge": speeds(four=1.3, eight=1.6), "replanned_s": NOW_S - 120.0}
    made = make_plan(nodes, [replace(came(30), age_s=age_s)], **given, **KNOBS)
    assert made.replan_early == at_once


def test_not_where_making_room_costs_more_than_a_start_is_worth():
    assert not ends(grown(), [came(30)], idle=0, knowledge=speeds(four=4.0, eight=12.0))


def test_not_while_somebody_waits_whom_the_last_re_plan_left_out():
    assert not ends(grown(), [came(30), came(600, 8)], idle=0)


def test_not_where_nobody_holds_more_than_its_least():
    live = elastic(1, 8, 16, gpus=8, started_s=NOW_S - 1800.0)
    assert not ends(live, [came(30)], idle=0)


def test_who_came_waits_for_as_long_as_the_knob_says():
    assert not ends(grown(), [came(10)], idle=0, since_s=30.0)


def test_of_many_nodes_those_with_the_most_idle_gpus_are_looked_at(monkeypatch):
    monkeypatch.setattr("scheduler.replan.paying.MOST_NODES", 2)
    nodes = [node(number, 8, idle=2 if number == 1 else 0, idle_cores=8) for number in range(1, 10)]
    given = {"running": [growing()], "knowledge": speeds(), "replanned_s": NOW_S - 120.0}
    seen = []

    def kept(job, offers, *rest, **more):
        seen.append([offer.node.id for offer in offers])
        return ()

    monkeypatch.setattr("scheduler.replan.paying.generate_on", kept)
    nodes[6:8] = [node(7, 8, idle=8, idle_cores=8), node(8, 8, idle=5, idle_cores=8)]
    assert not make_plan(nodes, [], **given, **KNOBS).replan_early
    assert seen == [[1, 7, 8]]  # its own node besides
