"""The sentence, the table and the plots by which a simulation's answer is read."""

import numpy as np
import pytest

from portal.pages.laboratory.output.answer_plots import answer_plots
from portal.pages.laboratory.output.verdict import order_of, table_of, verdict_of

NBSP = "\u00a0"


def rule(wait_h=1.0, run_h=6.0, *, p99_h=3.0, ratio=0.7, held=0.66, fragments=0.9, over_h=170.0, tenants=(1.0, 1.0)):
    """Figures of one rule, as the simulator answers them."""
    return {
        "jobs": 100,
        "jobs_unfinished": 0,
        "gpus_total": 32,
        "mean_wait_h": wait_h,
        "p99_wait_h": p99_h,
        "mean_lr": ratio,
        "mean_jct_h": wait_h + run_h,
        "gpu_active_rate": held,
        "fragments_per_round": fragments,
        "makespan_h": over_h,
        "tenants": {f"t{n}": {"jobs": 50 - n, "mean_wait_h": wait} for n, wait in enumerate(tenants)},
    }


def said(rules, in_force="berth", span="one week"):
    told = verdict_of(rules, order_of(rules, in_force), span)
    return "".join(part["text"] for part in told["parts"]).replace(NBSP, " "), told["below"].replace(NBSP, " "), told


def test_the_rule_in_force_stands_first_then_the_others_by_their_wait():
    rules = {"fifo": rule(3.0), "hops": rule(1.2), "berth": rule(2.0)}
    assert order_of(rules, "berth") == ["berth", "hops", "fifo"]
    assert order_of(rules, None) == ["hops", "berth", "fifo"]


def test_the_verdict_says_what_the_better_rule_gains_and_costs_and_who_loses():
    rules = {
        "hops": rule(1.0, 6.0, tenants=(1.0, 1.0, 0.5, 1.0)),
        "berth": rule(0.88, 6.18, tenants=(0.9, 0.8, 0.6, 0.9)),
        "fifo": rule(9.0),
    }
    words, below, told = said(rules)
    assert words == "berth would have kept waiting 12 % shorter than hops, at a 3 % longer mean run."
    assert [part.get("tone") for part in told["parts"]] == ["name", None, "run", None, None, "wait", None, None]
    assert below.startswith("Three of four tenants would have waited less; t2 6 min more. ")
    assert below.endswith("A difference of under 2 % is within what one week can show.")


def test_another_rule_may_be_the_better_one():
    words, below, _ = said({"berth": rule(1.0), "fifo": rule(0.5, tenants=(0.5, 0.5))})
    assert words == "fifo would have kept waiting 50 % shorter than berth."
    assert below.startswith("Both tenants would have waited less.")


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        (rule(1.0), rule(1.01), "No difference that one week can show."),
        (rule(0.0), rule(0.0), "No difference that one week can show."),
        (rule(1.0, held=0.7), rule(1.0, held=0.6), "berth would have held GPUs 17 % more than fifo."),
        (rule(0.0), rule(1.0), "berth would have kept waiting 100 % shorter than fifo."),
        (rule(1.0), rule(0.0), "fifo would have kept waiting 100 % shorter than berth."),
        (rule(1.0) | {"mean_wait_h": None}, rule(1.0), "No difference that one week can show."),
    ],
)
def test_without_its_jobs_what_is_within_two_per_cent_is_no_difference(own, other, words):
    assert said({"berth": own, "fifo": other})[0] == words


WAITS = np.random.default_rng(7).exponential(1.0, 400)
AFTERNOON = np.where(np.arange(400) // 20 == 3, 1.0, 0.0)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (WAITS * 1.012, "berth would have kept waiting 1 % shorter than fifo."),
        (WAITS[::-1] * 1.05, "No difference that one week can show."),
        (WAITS + 2 * AFTERNOON, "No difference that one week can show."),
        (WAITS[:399] * 2, "No difference that one week can show."),
    ],
    ids=["little, and with each job", "more, and by chance", "all in one afternoon", "of other jobs"],
)
def test_a_difference_is_judged_by_the_jobs_that_were_simulated(other, words):
    rules = {name: rule(float(np.mean(waits))) for name, waits in (("berth", WAITS), ("fifo", other))}
    course = {"active_rate": [0.5] * 240, "fragments": [1.0] * 240}
    curves = {
        name: {"jobs": [[wait, 6.0, None] for wait in waits], **course}
        for name, waits in (("berth", WAITS), ("fifo", other))
    }
    told = verdict_of(rules, order_of(rules, "berth"), "one week", curves)
    assert "".join(part["text"] for part in told["parts"]).replace(NBSP, " ") == words
    assert told == verdict_of(rules, order_of(rules, "berth"), "one week", curves), "the same at each look"


def test_one_rule_has_no_verdict():
    assert said({"fifo": rule()}, None)[0] == "Another rule is needed to compare with."


def test_a_column_that_is_equal_for_all_is_left_out_and_named():
    rules = {"berth": rule(1.0, held=0.66), "hops": rule(2.0, held=0.67), "fifo": rule(2.0, held=0.61)}
    table = table_of(rules, order_of(rules, "berth"))
    assert table["columns"] == ["mean wait", "GPUs held"]
    assert "all over after" in table["same"]
    best = [[cell["best"] for cell in row["cells"]] for row in table["rows"]]
    assert best == [[True, False], [False, True], [False, False]]


def test_the_first_row_says_how_far_it_is_from_the_best_of_each_column():
    rules = {"berth": rule(1.1, 6.0), "hops": rule(1.0, 6.6)}
    first, second = table_of(rules, order_of(rules, "berth"))["rows"]
    assert [cell["off"] for cell in first["cells"]] == [f"10{NBSP}%", None]
    assert [cell["off"] for cell in second["cells"]] == [None, None]


def test_six_columns_at_most():
    rules = {
        "berth": rule(),
        "fifo": rule(2.0, 7.0, p99_h=9.0, ratio=2.0, held=0.5, fragments=3.0, over_h=200.0),
    }
    assert len(table_of(rules, ["berth", "fifo"])["columns"]) == 6


def answer(waits, **policies):
    course = {"hours": [1.0, 2.0], "active_rate": [0.5, 1.0]}
    return {"policies": policies, "curves": {name: {"cdf_wait_h": waits[name], **course} for name in policies}}


def test_the_scale_of_waits_ends_at_the_99th_percentile_and_counts_what_is_beyond():
    waits = {"berth": [n / 100 for n in range(100)], "fifo": [n / 50 for n in range(99)] + [500.0]}
    plots = {plot.key: plot for plot, _ in answer_plots(answer(waits, berth=rule(), fifo=rule()), ["berth", "fifo"])}
    axis = plots["waits"].figure["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert 10 ** axis["range"][1] < 2.0
    assert max(x for line in plots["waits"].figure["data"] for x in line["x"]) <= 2.0
    assert plots["waits"].table.note == f"Not drawn, they waited more than 1{NBSP}h{NBSP}56{NBSP}min: 2 of fifo."
    assert plots["held"].figure["layout"]["yaxis"]["range"][1] == pytest.approx(1.04 * 32)
    assert plots["tenants"].figure["data"][-1]["name"] == "berth", "drawn last, above the other"


def test_at_most_four_rules_are_drawn_and_plots_without_points_are_none():
    names = ["berth", *"abcde"]
    rules = {name: rule() for name in names}
    drawn = answer_plots(answer({name: [0.5, 1.0] for name in names}, **rules), names)
    assert [len(styles) for _, styles in drawn] == [4, 2, 2]
    still = {name: rule(0.0, tenants=(0.0, 0.0)) | {"gpus_total": 0} for name in names}
    assert answer_plots(answer({name: [0.0] for name in names}, **still), names) == []
