"""Gavel's rounds (OSDI '20, section 5): priorities and who they let run."""

from __future__ import annotations

from scheduler.policies.rivals.timeshare.allocation import Entrant, choose

TYPES = ("v100", "p100", "k80")
X = ((0.6, 0.4, 0.0), (0.2, 0.6, 0.2), (0.2, 0.0, 0.8))
ROUNDS = ((3, 1, 0), (1, 3, 0), (0, 0, 4))


def entrant(job, scale, fractions, had, now_on=None):
    kept = {name: each / sum(had) for name, each in zip(TYPES, had, strict=False) if each}
    return Entrant(job, scale, dict(zip(TYPES, fractions, strict=False)), kept, now_on)


def test_section_5_the_worked_example():
    """X and the rounds received so far give the priorities; what a job has had nothing of comes first."""
    jobs = [entrant(job, 1, *each) for job, each in enumerate(zip(X, ROUNDS, strict=True))]
    priorities = [[round(4 * 0.25 * each.priority(name), 3) for name in TYPES] for each in jobs]
    assert priorities[0] == [0.8, 1.6, 0.0], "four times the paper's 0.2, 0.4 and 0: fractions instead of rounds"
    assert priorities[1][:2] == [0.8, 0.8]
    assert priorities[1][2] > 1e6, "the paper's infinity"
    assert priorities[2][0] > 1e6
    assert priorities[2][1:] == [0.0, 0.8]
    assert choose(jobs, dict.fromkeys(TYPES, 1)) == {1: "k80", 2: "v100", 0: "p100"}


def test_algorithm_1_passes_over_who_does_not_fit_any_more():
    jobs = [
        entrant(1, 2, (0.5,), (0,)),
        entrant(2, 4, (0.4,), (0,)),
        entrant(3, 1, (0.3,), (0,)),
    ]
    assert choose(jobs, {"v100": 4}) == {1: "v100", 3: "v100"}


def test_gpus_left_over_go_to_who_should_have_none_of_them():
    jobs = [entrant(1, 1, (1.0, 0.0), (0, 0)), entrant(2, 1, (1.0, 0.0), (0, 0))]
    assert choose(jobs, {"v100": 1, "p100": 1}) == {1: "v100", 2: "p100"}


def test_between_equals_leases_are_renewed_and_then_the_queue_decides():
    jobs = [entrant(1, 1, (0.5,), (1,)), entrant(2, 1, (0.5,), (1,)), entrant(3, 1, (0.5,), (1,), now_on="v100")]
    assert choose(jobs, {"v100": 2}) == {3: "v100", 1: "v100"}
