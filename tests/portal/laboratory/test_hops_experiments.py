"""Hops' experiments: their settings, who is compared and how, and the calibration's search."""

from dataclasses import replace

import pytest

from portal.laboratory.experiments.base import Options
from portal.laboratory.experiments.hops import calibration, choices
from portal.laboratory.experiments.hops.gpus_64 import SETTING as SETTING_64
from portal.laboratory.experiments.hops.gpus_512 import PAPER, SETTING
from portal.laboratory.experiments.hops.setting import (
    OURS,
    RIVALS,
    Entrant,
    Setting,
    bounds,
    entrants,
    medians,
    runs,
    table,
)
from portal.laboratory.sources.generators import GENERATORS
from scheduler.simulator.generators.hops_constants import Choices

TINY = Setting(gpus=64, jobs=4, per_hour=200.0)


def weighing(setting, class_hour):
    return replace(setting, choices=replace(setting.chosen, class_hour=class_hour))


def test_settings_are_the_papers():
    jobs, world = SETTING.prepare(1)
    assert (len(jobs), sum(node.gpus_total for node in world.nodes), len(world.nodes)) == (500, 512, 64)
    jobs, world = SETTING_64.prepare(1)
    assert (len(jobs), sum(node.gpus_total for node in world.nodes), len(world.nodes)) == (25, 64, 10)


def test_a_seed_is_the_same_jobs_and_cluster_for_every_policy():
    assert TINY.prepare(3) == TINY.prepare(3)
    assert TINY.prepare(3) != TINY.prepare(4)
    heavier, _ = weighing(TINY, 2.0).prepare(3)
    lighter, _ = weighing(TINY, 1.0).prepare(3)
    assert [job.work for job in heavier] == pytest.approx([2 * job.work for job in lighter])


def test_figures_come_one_a_seed_and_are_the_same_again():
    who = [*entrants("fifo"), Entrant("as fifo", "fifo")]
    found = runs(TINY, who, Options(seeds=2))
    assert {name: [each["seed"] for each in seeds] for name, seeds in found.items()} == {
        "fifo": [1, 2],
        "as fifo": [1, 2],
    }
    one, other = ([each["mean_jct_h"] for each in seeds] for seeds in found.values())
    assert one == other
    assert one[0] != one[1]


def test_medians_are_over_the_seeds_that_have_the_figure():
    seeds = [{"max_lr": 3.0}, {"max_lr": None}, {"max_lr": 1.0}, {"max_lr": 9.0}]
    assert medians(seeds, ("max_lr", "max_ftf")) == {"max_lr": 3.0, "max_ftf": None}


def test_every_figure_that_programs_read_is_there():
    """Section 13: the keys of `--json`."""
    asked = (
        "mean_jct_h median_jct_h p99_jct_h makespan_h mean_wait_h mean_lr max_lr max_ftf fragments_per_round".split()
    )
    assert {*asked, "gpu_active_rate", "solve_p95_s"} <= set(medians([{}]))


def test_the_table_sets_the_papers_figures_beside_ours():
    shown = table("T", {"gavel-hops": {"makespan_h": 15.42}}, PAPER, keys=("makespan_h",))
    assert "15.4 (15.4; 1.00)" in shown.text()


def test_the_table_tells_how_far_everybody_is_from_clairvoyance():
    bound = {name: medians(seeds) for name, seeds in bounds(TINY, Options(seeds=2)).items()}
    least = bound["clairvoyant, least work first"]["mean_jct_h"]
    shown = table("T", {"berth": medians([{"mean_jct_h": 1.5 * least}])}, {}, bound=bound)
    assert shown.columns[-1] == "JCT over the least"
    assert [row[0] for row in shown.rows] == ["berth", *bound]
    assert [row[-1].ours for row in shown.rows][:2] == [pytest.approx(1.5), 1.0]
    assert "no proven bound" in shown.note


def test_rivals_replan_in_their_own_rounds():
    assert Entrant("x", "hops", (("lambda", 2.0),)).parameters().lambda_ == 2.0
    assert Entrant("x", "berth").parameters().replan_s == 360.0


def test_the_calibration_finds_the_constant_on_the_rivals_makespan_alone(monkeypatch):
    """The makespan grows with the work, so bisection meets it; figures beside it do not steer."""

    def rival(setting, options):
        return dict.fromkeys(calibration.SHOWN, 1.0) | {"makespan_h": 10.0 * setting.choices.class_hour}

    monkeypatch.setattr(calibration, "rival_medians", rival)
    said = []
    found = calibration.search("hops-512", SETTING, PAPER["gavel-hops"], Options(say=said.append))
    last = found.json["steps"][-1]
    assert last["class_hour"] == pytest.approx(1.542, abs=0.01)
    assert abs(last["makespan_h"] - 15.42) <= calibration.WITHIN_H
    assert len(said) == len(found.json["steps"]) == len(found.tables[0].rows)


TRUE = {"even_hours": True, "between_gbs": 8.0, "shortest_h": 0.1, "small_sizes": 0.6}


def rivals_of(setting, options):
    """Rivals whose figures are the paper's with `TRUE` and an hour of 1.3 alone; what sizes cost shows in `sia-hops` only."""
    choices, paper = setting.choices, PAPER["gavel-hops"]
    off = sum(getattr(choices, name) != value for name, value in TRUE.items())
    off += sum(getattr(choices, name) != getattr(Choices(), name) for name in ("longest_h", "most_xl", "least_s"))
    makespan_h = 1.0 + (paper["makespan_h"] - 1.0) * choices.class_hour / 1.3
    slow = PAPER["sia-hops"]["mean_jct_h"] * (1.0 if choices.within_gbs == 4.0 else 0.8)
    return {
        "gavel-hops": dict(paper) | {"mean_jct_h": paper["mean_jct_h"] * 1.1**off, "makespan_h": makespan_h},
        "sia-hops": dict(PAPER["sia-hops"]) | {"mean_jct_h": slow},
    }


def test_the_choices_are_those_with_which_both_rivals_come_nearest_to_their_whole_rows(monkeypatch):
    monkeypatch.setattr(choices, "rivals_medians", rivals_of)
    said = []
    found = choices.search("hops-512", SETTING, PAPER, Options(say=said.append))
    steps, last = found.json["steps"], found.json["steps"][-1]
    assert {name: last["choices"][name] for name in TRUE} == TRUE
    assert last["choices"]["within_gbs"] == 4.0
    assert last["choices"]["class_hour"] == pytest.approx(1.3, abs=0.03)
    assert [each["distance"] for each in steps] == sorted((each["distance"] for each in steps), reverse=True)
    assert len(steps) == len(found.tables[0].rows) < len(said)
    assert "even_hours 1" in found.tables[0].text()


def test_a_rival_without_a_figure_is_never_near():
    assert choices.distance(PAPER, PAPER) == 0
    lame = {**PAPER, "sia-hops": {**PAPER["sia-hops"], "max_lr": None}}
    assert choices.distance(lame, PAPER) == float("inf")


def test_every_policy_brings_the_workload_to_its_end():
    """Hops 4.2, on a few of its jobs: the rivals too take part under the names that the tables give them."""
    few = weighing(Setting(gpus=64, jobs=6, per_hour=60.0, physical=True), 0.5)
    found = runs(few, entrants(*OURS, *RIVALS), Options())
    assert {name: seeds[0]["jobs_completed"] for name, seeds in found.items()} == dict.fromkeys((*OURS, *RIVALS), 6)


@pytest.mark.parametrize(("name", "setting"), [("hops-64", SETTING_64), ("hops-512", SETTING)])
def test_the_generator_of_the_same_name_draws_the_same(name, setting):
    jobs, world = GENERATORS[name].make(3, setting.jobs)
    drawn, its = setting.prepare(3)
    assert [(each.job, each.work) for each in jobs] == [(each.job, each.work) for each in drawn]
    assert (world.nodes, world.speeds) == (its.nodes, its.speeds)
