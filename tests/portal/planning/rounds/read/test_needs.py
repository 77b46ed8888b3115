"""The resources that would have to come free for a job to start, in words, from the figures behind its reason."""

from portal.planning.rounds.read.needs import NEEDS, start_need
from scheduler.model import Reason

NEEDED = {"min_gpus": 4, "gpu_types": ["A100"]}
CASES = [
    (
        "not-enough-idle-gpus",
        {"needs": NEEDED, "offered": {"idle_gpus": {"A100": 1}, "most_of_a_type": 1}},
        "3 more free GPUs of type A100",
    ),
    (
        "not-enough-idle-gpus",
        {"needs": NEEDED, "offered": {"idle_gpus": {"A100": 3, "H100": 3}, "most_of_a_type": 3}},
        "1 more free GPU of one type",
    ),
    (
        "gpus-scattered",
        {"needs": NEEDED, "offered": {"largest_block": {"gpus": 3, "nodes": ["a", "b", "c", "d"]}}},
        "1 more free GPU on a or b or 2 others",
    ),
    (
        "not-enough-cores",
        {"needs": NEEDED, "needed": 8, "available": 6},
        "2 more free cores on one node beside its GPUs",
    ),
    ("not-enough-cores", {"needs": {"min_gpus": 0}, "needed": 8, "available": 7}, "1 more free core on one node"),
    (
        "not-enough-cores",
        {"needs": NEEDED, "needed": 16, "available": 14, "spread": {"gpus": 14, "beside": 2}},
        "2 more free GPUs with 2 free cores each",
    ),
    (
        "not-enough-memory",
        {"needs": NEEDED, "needed": 900, "available": 100},
        "0.7812 GiB more free memory on one node beside its GPUs",
    ),
    (
        "not-enough-memory",
        {"needs": NEEDED, "needed": 9, "available": 1, "ever": False},
        "a smaller ask: no node has so much",
    ),
    ("outside-window", {"place": 9}, "its turn (8 jobs ahead)"),
    ("outside-window", {"place": 1}, "its turn, which is next"),
    ("outside-window", {"place": 3, "blocked_by": {"place": 2}}, "the job at place 2 to start"),
    ("tenant-quota", {"resource": "gpus", "needed": 4, "left": 2}, "2 more GPUs of its tenant's quota"),
    (
        "lost-to-higher-priority",
        {"binding": {"resource": "cores", "node": "n1", "needed": 8, "available": 7}},
        "1 more free core on n1",
    ),
    ("lost-to-higher-priority", {"binding": {"resource": "value", "node": None}}, None),
    ("restored", {"nodes": ["n1"]}, "every node to say what runs there"),
    ("dependency", {"depends_on": [7, 8]}, "#7 and #8 to end"),
    ("gpus-scattered", {}, None),
]


def test_words(subtests):
    for reason, figures, words in CASES:
        with subtests.test(figures=figures):
            assert start_need(reason, figures) == words


def test_every_reason_of_the_vocabulary_is_known():
    assert set(NEEDS) == {str(reason) for reason in Reason}
