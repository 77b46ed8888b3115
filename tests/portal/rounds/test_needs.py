"""What would have to come free for a job to start, in words, from the figures behind its reason."""

import pytest

from portal.rounds.needs import NEEDS, start_need
from scheduler.model import Reason

NEEDED = {"min_gpus": 4, "gpu_types": ["A100"]}
CASES = [
    ("not-enough-idle-gpus", {"needs": NEEDED, "offered": {"idle_total": 1}}, "3 more idle GPUs of type A100"),
    ("gpus-scattered", {"needs": NEEDED, "offered": {"largest_block": {"gpus": 3, "nodes": ["a", "b", "c", "d"]}}},
     "1 more idle GPU on a or b or 2 others"),
    ("not-enough-cores", {"needed": 8, "available": 6}, "2 more idle cores on one node beside its GPUs"),
    ("not-enough-memory", {"needed": 900, "available": 100}, "800 more MiB of idle memory on one node beside its GPUs"),
    ("outside-window", {"place": 9, "window_jobs": 4}, "5 jobs ahead of it to leave the queue"),
    ("outside-window", {"place": 9, "window_jobs": 4, "outside_ahead": 0}, "1 job ahead of it to leave the queue"),
    ("tenant-quota", {"resource": "gpus", "needed": 4, "left": 2}, "2 more GPUs of its tenant's quota"),
    ("lost-to-higher-priority", {"binding": {"resource": "cores", "node": "n1", "needed": 8, "available": 7}},
     "1 more idle core on n1"),
    ("lost-to-higher-priority", {"binding": {"resource": "value", "node": None}}, None),
    ("dependency", {"depends_on": [7, 8]}, "#7 and #8 to end"),
    ("gpus-scattered", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "figures", "words"), CASES)
def test_words(reason, figures, words):
    assert start_need(reason, figures) == words


def test_every_reason_of_the_vocabulary_is_known():
    assert set(NEEDS) == {str(reason) for reason in Reason}
