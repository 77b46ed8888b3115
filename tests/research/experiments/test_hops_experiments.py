"""Hops' experiments: their settings, who is compared and how, and the hour's calibration at 64 GPUs."""

from dataclasses import replace

import pytest

from portal.pages.laboratory.sources.generators import GENERATORS
from research.experiments.base import Options
from research.experiments.hops import calibration
from research.experiments.hops.distance import with_run
from research.experiments.hops.gpus_64 import PAPER as PAPER_64
from research.experiments.hops.gpus_64 import SETTING as SETTING_64
from research.experiments.hops.gpus_512 import PAPER, SETTING
from research.experiments.hops.setting import (
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


def of_hours(monkeypatch, best):
    """Let rivals be the paper's with this hour, and further off the further the hour is."""

    def row(self, where, choices, rival):
        return with_run({key: value * choices.class_hour / best for key, value in PAPER_64[rival].items()})

    monkeypatch.setattr(calibration.Trials, "run", lambda *_: None)
    monkeypatch.setattr(calibration.Trials, "row", row)


@pytest.mark.parametrize("best", [1.3, 1.87, 2.6])
def test_the_hour_is_that_with_which_both_rivals_come_nearest(monkeypatch, best):
    of_hours(monkeypatch, best)
    said = []
    found = calibration.search("hops-64", SETTING_64, PAPER_64, Options(say=said.append))
    assert found.json["nearest"] == pytest.approx(best, rel=0.02)
    assert found.json["to_freeze"] == found.json["nearest"]
    assert found.json["steps"][0]["class_hour"] == SETTING_64.chosen.class_hour
    assert len(said) == len(found.json["steps"]) == len(found.tables[0].rows)


def test_an_hour_that_is_not_clearly_nearer_is_not_to_be_frozen(monkeypatch):
    of_hours(monkeypatch, 2.6)
    monkeypatch.setattr(calibration, "CLEARLY", 0.0)
    found = calibration.search("hops-64", SETTING_64, PAPER_64, Options())
    assert found.json["to_freeze"] == SETTING_64.chosen.class_hour != found.json["nearest"]


@pytest.mark.slow
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
