"""Hops' workload at 512 GPUs: the search on a part of it, with two rivals, and the check on the whole."""

from collections import Counter
from dataclasses import replace

import pytest

from research.experiments.base import Options
from research.experiments.hops import choices
from research.experiments.hops.distance import ROWS, distance, with_run
from research.experiments.hops.gpus_512 import PAPER, PART, SETTING
from research.experiments.hops.setting import Setting
from research.experiments.hops.trials import COARSE_S, Trials, Where
from scheduler.simulator.generators.hops_models import FROZEN_512

TRUE = {"longest_h": 8.0, "poor_server": 0.65, "even_hours": True, "shortest_h": 0.1}
"""With these and an hour of 1.3 the rivals' rows are the paper's."""


def figures_of(trial):
    """Return rivals' figures: off the paper's by a tenth for each value that is not true; half of it on a part."""
    setting, rival, seed, _ = trial
    chosen, paper = setting.choices, PAPER[rival]
    off = sum(getattr(chosen, name) != TRUE.get(name, getattr(FROZEN_512, name)) for name in choices.VALUES)
    size = (1.0 if setting.gpus == 512 else 0.5) * (1.0 + seed / 100)
    makespan_h = 1.0 + (paper["makespan_h"] - 1.0) * chosen.class_hour / 1.3
    return {key: value * 1.1**off * size for key, value in paper.items()} | {"makespan_h": makespan_h * size}


def modelled(monkeypatch):
    """Let `Trials` answer by `figures_of`; return what it was asked to run."""
    asked = []

    def run(self, where, many, rivals):
        for chosen in many:
            for rival in rivals:
                for seed in where.seeds:
                    trial = (replace(where.setting, choices=chosen), rival, seed, where.coarse)
                    asked.extend([trial] * (trial not in self.known))
                    self.known.setdefault(trial, figures_of(trial))

    monkeypatch.setattr(Trials, "run", run)
    return asked


def searched(**options):
    return choices.search("hops-512", SETTING, PART, PAPER, Options(**options))


def test_the_search_finds_the_values_with_which_both_rivals_rows_are_the_papers(monkeypatch):
    modelled(monkeypatch)
    found = searched(seeds=2)
    freeze = found.json["to_freeze"]
    assert {name: freeze[name] for name in TRUE} == TRUE
    assert freeze["class_hour"] == pytest.approx(1.3, abs=0.04)
    steps = [each["distance"] for each in found.json["steps"]]
    assert steps == sorted(steps, reverse=True)
    assert len(steps) == len(found.tables[0].rows) == 1 + len(set(TRUE) - {"even_hours"})
    assert "longest_h 8" in found.tables[0].text()


def test_the_whole_sees_the_frozen_choices_and_the_nearest_few_alone(monkeypatch):
    asked = modelled(monkeypatch)
    found = searched(seeds=2)
    whole = {each[0].choices for each in asked if each[0].gpus == 512 and each[1] == "sia-hops"}
    assert FROZEN_512 in whole
    assert len(whole) == 1 + choices.FINALISTS == len(found.tables[1].rows)
    assert {each[2] for each in asked if each[0].gpus == 512} == {1, 2}
    assert max(Counter(asked).values()) == 1


def test_what_is_not_clearly_nearer_leaves_the_frozen_choices(monkeypatch):
    modelled(monkeypatch)
    found = searched()
    frozen, nearest = (f(each["distance"] for each in found.json["whole"]) for f in (max, min))
    assert nearest < choices.CLEARLY * frozen
    monkeypatch.setattr(choices, "CLEARLY", 0.9 * nearest / frozen)
    assert searched().json["to_freeze"] == found.json["whole"][0]["choices"]


def test_half_of_a_constants_values_are_tried_on_one_seed_alone(monkeypatch):
    asked = modelled(monkeypatch)
    searched()
    of_choices = {}
    for setting, rival, seed, coarse in asked:
        if coarse and rival == "sia-hops":
            of_choices.setdefault(setting.choices, set()).add(seed)
    seen = Counter(frozenset(seeds) for seeds in of_choices.values())
    assert set(seen) == {frozenset({3}), frozenset({2, 3})}
    assert seen[frozenset({3})] > 10


def test_a_part_is_reckoned_as_the_frozen_choices_were(monkeypatch):
    modelled(monkeypatch)
    looking = choices.Search(Where(SETTING, (1,)), Where(PART, (3, 2), coarse=True), FROZEN_512, PAPER, Options())
    looking.begin()
    for rival in ROWS:
        assert looking.row(looking.part, FROZEN_512, rival) == pytest.approx(
            looking.row(looking.whole, FROZEN_512, rival)
        )


def test_a_single_jobs_ratio_counts_on_the_whole_alone(monkeypatch):
    """On a part it was 3 with one choice and 170 with the next, and outweighed all else."""
    modelled(monkeypatch)
    monkeypatch.setattr(choices, "_scaled", lambda found, whole, part: found)
    looking = choices.Search(Where(SETTING, (1,)), Where(PART, (3, 2), coarse=True), FROZEN_512, PAPER, Options())
    looking.begin()
    before = [looking.distance(where, FROZEN_512) for where in (looking.part, looking.whole)]
    for known in looking.trials.known.values():
        known["max_lr"] *= 50
    after = [looking.distance(where, FROZEN_512) for where in (looking.part, looking.whole)]
    assert after[0] == before[0]
    assert after[1] > before[1] + 1


def test_a_rival_without_a_figure_is_never_near():
    paper = {rival: with_run(PAPER[rival]) for rival in ROWS}
    assert distance(paper, PAPER) == 0
    assert distance({**paper, "sia-hops": {**paper["sia-hops"], "max_lr": None}}, PAPER) == float("inf")


def test_how_long_jobs_run_counts_by_itself():
    """The same JCT with less waiting is off in waiting and in running: 2.11 h under Sia in the paper."""
    assert with_run(PAPER["sia-hops"])["mean_run_h"] == pytest.approx(2.11)
    rows = {rival: with_run(PAPER[rival]) for rival in ROWS}
    waiting_less = {**rows, "sia-hops": with_run({**PAPER["sia-hops"], "mean_wait_h": 1.5})}
    run_kept = {**rows, "sia-hops": {**rows["sia-hops"], "mean_wait_h": 1.5}}
    assert distance(waiting_less, PAPER) > distance(run_kept, PAPER) > 0


@pytest.mark.slow
def test_trials_run_once_and_a_part_in_longer_rounds(monkeypatch):
    """Real runs of a few jobs; the second asking runs nothing."""
    few = Where(Setting(gpus=64, jobs=3, per_hour=60.0), (1, 2), coarse=True)
    asked = []
    real = Options.run_all
    monkeypatch.setattr(Options, "run_all", lambda self, tasks: asked.append(tasks) or real(self, tasks))
    trials = Trials(Options())
    trials.run(few, [FROZEN_512, FROZEN_512], ROWS)
    first = trials.row(few, FROZEN_512, "sia-hops")
    trials.run(few, [FROZEN_512], ROWS)
    assert [len(tasks) for tasks in asked] == [4, 0]
    assert {task.work.parameters.replan_s for task in asked[0]} == {COARSE_S}
    assert first["mean_run_h"] == pytest.approx(first["mean_jct_h"] - first["mean_wait_h"])
    again = Trials(Options())
    again.run(few, [FROZEN_512], ROWS)
    assert again.row(few, FROZEN_512, "sia-hops") == first
