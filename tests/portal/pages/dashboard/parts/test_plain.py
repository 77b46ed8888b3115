"""Codes of the scheduler in plain words. Figures are as the scheduler stores them."""

import re

import pytest

from portal.pages.dashboard.parts import plain
from portal.work.jobs.states import FINAL
from scheduler.explaining.sentences import SENTENCES
from scheduler.model import Reason

NEEDS = {"min_gpus": 4, "gpus": [4], "gpu_types": ["A100"]}
AT_S = 1_795_000_320.0  # 2026-11-18T11:12Z


def offered(most, block, *, total=None, nodes=()):
    rows = [{"node": f"n{place}", "gpus": gpus} for place, gpus in enumerate(nodes)]
    largest = {"gpus": block, "nodes": ["n0"]}
    return {
        "most_of_a_type": most,
        "largest_block": largest,
        "idle_total": most if total is None else total,
        "nodes": rows,
    }


def kept(job, **more):
    return {"keepers": [{"job": job, "nodes": ["n1"], "gpus": 2, "until_s": AT_S, "cause": "reservation", **more}]}


CASES = [
    ("not-enough-idle-gpus", {"needs": NEEDS, "offered": offered(1, 1)}, "4 A100, 1 free"),
    ("not-enough-idle-gpus", {"needs": NEEDS, "offered": offered(0, 0)}, "4 A100, none free"),
    ("not-enough-idle-gpus", {"needs": {"min_gpus": 1}, "offered": offered(0, 0)}, "1 GPU, none free"),
    ("not-enough-idle-gpus", {"needs": NEEDS, "offered": offered(2, 2), "ever": False}, "4 A100, the cluster has 2"),
    (
        "not-enough-idle-gpus",
        {"needs": NEEDS, "offered": offered(3, 3), "ever": False, "for_sharing": 1},
        "4 A100, the cluster has 3 and 1 for sharing",
    ),
    (
        "not-enough-idle-gpus",
        {"needs": NEEDS, "offered": offered(3, 3), "set_aside": {"gpus": 1, "nodes": ["n1"]}},
        "4 A100, 3 free, and 1 GPU for sharing on n1",
    ),
    (
        "not-enough-cores",
        {"needs": NEEDS, "needed": 8, "available": 1, "set_aside": {"gpus": 3, "nodes": []}},
        "8 cores on one node, at most 1 core free, and 3 GPUs for sharing",
    ),
    ("no-node-with-type", {"needs": NEEDS, "set_aside": {"gpus": 1, "nodes": []}}, "4 A100, all for sharing"),
    ("gpus-scattered", {"needs": NEEDS, "offered": offered(4, 3, nodes=(3, 1))}, "4 free, but on two nodes"),
    (
        "gpus-scattered",
        {"needs": NEEDS, "offered": offered(5, 2, nodes=(2, 2, 1))},
        "5 free, but at most 2 on one node",
    ),
    (
        "gpus-scattered",
        {"needs": NEEDS, "offered": offered(8, 2), "ever": False},
        "4 A100 on one node, no node has more than 2",
    ),
    ("reserved", kept("1061"), "kept for #1061 until 2026-11-18T11:12Z"),
    ("reserved", kept(None, until_s=None), "kept for another tenant's job"),
    ("reserved", {**kept(5), "more": 2}, "kept for 3 other jobs"),
    ("reserved", {"kept_for": "array", "owner": "large"}, "free, but kept for other jobs"),
    ("lost-to-higher-priority", {"lost_to": {}}, "jobs that waited longer come first"),
    ("tenant-quota", {"resource": "gpus", "quota": 20, "held": 20, "left": 0}, "vision-lab holds 20 of its 20 GPUs"),
    (
        "tenant-quota",
        {"resource": "cores", "quota": 8, "asked_ahead": 8},
        "vision-lab may hold 8 cores, and its jobs before this one ask for them",
    ),
    ("outside-window", {"place": 9}, "others come first"),
    ("not-planned-yet", {}, "not looked at yet, within 30 s"),
    ("solver-limit", {"limit_s": 3}, "not looked at yet, within 30 s"),
    ("dependency", {}, "waits for another job"),
    ("dependency", {"depends_on": ["7", "8_1"]}, "after #7 and #8_1"),
    ("dependency", {"until": "2026-11-18 11:12:00 UTC", "until_s": AT_S}, "not before 2026-11-18T11:12Z"),
    (
        "not-enough-cores",
        {"needs": NEEDS, "needed": 8, "available": 1},
        "8 cores on one node, at most 1 core free",
    ),
    (
        "not-enough-cores",
        {"needs": NEEDS, "needed": 16, "available": 14, "spread": {"gpus": 14, "beside": 2}},
        "16 GPUs with 2 cores each, 14 free",
    ),
    (
        "not-enough-memory",
        {"needs": NEEDS, "needed": 65536, "available": 8192},
        "64 GiB of memory on one node, at most 8 GiB of memory free",
    ),
    ("nodes-unavailable", {"needs": NEEDS, "unavailable": [{"node": "n1", "why": ""}]}, "n1 takes no jobs now"),
    ("restored", {"nodes": ["n1"]}, "waits for n1 to answer after a restore"),
    ("no-node-with-type", {"needs": NEEDS}, "4 A100, no node has such"),
    ("held", {"promised": {"nodes": ["n1"], "cause": "preempt"}}, "GPUs are being freed for it on n1"),
    ("gpus-scattered", {"place": 3}, "free, but not on one node"),  # of the reason before
]


def test_figures_in_words(subtests):
    for code, figures, words in CASES:
        with subtests.test(code=code, figures=figures):
            assert plain.reason_words(code, figures, tenant="vision-lab", within_s=30) == words


@pytest.mark.parametrize("code", [*map(str, Reason)])
def test_every_reason_has_words_without_its_code(code):
    """`Reason` is the one declaration of the codes; its sentences are the scheduler's, its short words are here."""
    assert Reason(code) in SENTENCES
    for words in (plain.reason_words(code), plain.reason_words(code, {}), plain.reason_words(code, {"needs": NEEDS})):
        assert words
        assert "-" not in words
        assert not re.search(r"\b(window|idle|reserved|planning|placement|allocated|priority)\b", words)
        assert len(words.split()) <= 7


def test_a_code_of_another_release_stays_and_none_is_nothing():
    assert plain.reason_words("brand-new", {}) == "brand-new"
    assert plain.reason_words(None) == plain.reason_words("") == ""


def test_sizes():
    assert [*map(plain.sizes, ([4, 8], [1, 2, 4], [1], [0], [1, 2, 3, 4], [1, 2, 3]))] == [
        "4 or 8",
        "1, 2 or 4",
        "1",
        "no GPU",
        "1 to 4",
        "1, 2 or 3",
    ]
    assert [*map(plain.sizes_gpus, ([4, 8], [1], [0]))] == ["4 or 8 GPUs", "1 GPU", "no GPU"]


def test_ratios():
    said = [*map(plain.waited_times, (0.2, 0.664, 12.4, 1240.0, 0.001, 0.0))]
    assert said == [
        f"waited {figure} times its run time"
        for figure in ("0.2", "0.66", "12", "1\u202f240", "less than 0.01", "less than 0.01")
    ]
    assert plain.waited_times(None) == ""


def test_every_end_has_words():
    assert all(map(plain.ended, FINAL))
    assert plain.ended("FAILED", 3) == "failed with exit code 3"
    assert plain.ended("FAILED", None, 9) == "failed by signal 9"
    assert plain.ended("COMPLETED", 0) == "done"
