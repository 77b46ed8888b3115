"""A placed job's page on the GPUs that it did not get."""

import pytest

from portal.planning.rounds.read.explained import larger_sentence


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("gpus", "larger", "words"),
    [
        (
            4,
            {"gpus": 8, "adds": 0.404, "job": 71},
            "4 GPUs rather than 8: the other 4 would add 40 % speed while job 71 waits.",
        ),
        (
            1,
            {"gpus": 2, "adds": 0.9, "job": None},
            "1 GPU rather than 2: the other 1 would add 90 % speed while a job of another tenant waits.",
        ),
        (4, None, None),
    ],
)
def test_the_words(gpus, larger, words):
    assert larger_sentence({"gpus": gpus, "larger": larger}) == words


def test_a_waiting_job_and_one_recorded_before_have_none():
    assert larger_sentence(None) is larger_sentence({"gpus": 4}) is None
