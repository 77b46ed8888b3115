"""Answers of Slurm's commands that a cluster of an ordinary test does not give, recorded from Debian's Slurm 22.05.8."""

import pytest

from workers.bridge.command import Answer
from workers.bridge.slurm import SlurmEngine
from workers.protocol.engine import Away, RefusedError, Seen, UnknownError

ORDER = {
    "name": "berth-pilot-1",
    "again": False,
    "gpus": 1,
    "gpu_type": "gpu",
    "cores": 1,
    "memory_mib": 10,
    "limit_s": 60,
    "join_token": "",
}


class Says:
    """A runner whose commands end so; `id` says 1000."""

    def __init__(self, code, err="", out=""):
        self.answer, self.words = Answer(code, out, err, 0.0), ()

    def run(self, *words, text="", limit_s=None):
        self.words = words
        return Answer(0, "1000\n", "", 0.0) if words[0] == "id" else self.answer

    def put(self, path, text):
        raise AssertionError


def engine(*says, **more):
    return SlurmEngine(Says(*says, **more), partition="berth")


NO_USER = "squeue: error: Invalid user: nosuch\n\n"
NO_PARTITION = """sbatch: error: invalid partition specified: nope
sbatch: error: Batch job submission failed: Invalid partition name specified
"""
AWAY = "Unable to contact slurm controller (connect failure)\n"


def test_an_account_that_nobody_knows_at_the_moment_is_no_empty_list():
    """Then `squeue` ends with 0, and prints nothing."""
    assert engine(0, NO_USER).look() == Away("squeue: error: Invalid user: nosuch")
    assert engine(0, "Warning: Permanently added 'login' to the list of known hosts.\n").look() == Seen({}, [])


def test_a_line_that_is_no_job_is_logged_once(caplog):
    made = engine(0, "", "nonsense\n")
    with caplog.at_level("ERROR", "workers"):
        assert made.look() == made.look() == Seen({}, [])
    assert [each.getMessage() for each in caplog.records] == [
        "squeue prints lines that are no jobs lines=1 first=nonsense"
    ]


@pytest.mark.parametrize(
    "err", [f"sbatch: error: Batch job submission failed: {AWAY}", "", "sh: 1: something broke\n", "Killed\n"]
)
def test_an_sbatch_that_says_nothing_of_the_order_leaves_it_unknown(err):
    for code in (1, 127, None):
        with pytest.raises(UnknownError):
            engine(code, err).submit(ORDER, "")
    with pytest.raises(UnknownError):
        engine(0, err, "Submitted\n").submit(ORDER, "")


@pytest.mark.parametrize(
    ("code", "err", "words"),
    [
        (
            1,
            NO_PARTITION,
            "invalid partition specified: nope; Invalid partition name specified",
        ),
        (
            1,
            "sbatch: error: Invalid generic resource (gres) specification\n",
            "Invalid generic resource (gres) specification",
        ),
        (
            255,
            "/usr/bin/sbatch: unrecognized option '--bad'\nTry \"sbatch --help\" for more information\n",
            "unrecognized option '--bad'",
        ),
    ],
)
def test_an_sbatch_that_slurm_refuses_has_its_words(code, err, words):
    with pytest.raises(RefusedError) as caught:
        engine(code, err).submit(ORDER, "")
    assert str(caught.value) == words
    with pytest.raises(RefusedError) as caught:
        engine(1, f"sbatch: error: {'long ' * 500}\n").submit(ORDER, "")
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("out", ["7\n", "7;cluster\n", "a banner\n7\n"])
def test_a_number_is_found(out):
    made = engine(0, "", out)
    assert made.submit(ORDER, "") == "7"
    assert "--gres=gpu:1" in made.runner.words, "GPUs without a type"


def test_a_longer_limit_is_not_given_to_an_ordinary_account():
    assert engine(1, "Access/permission denied for job 26\n").extend("26", "berth-pilot-1", 9) is False
    assert (
        engine(1, "scontrol: error: No jobs with user ID 0 and name 'berth-pilot-1'\n").extend("26", "berth-pilot-1", 9)
        is False
    )
    away = f"scontrol: error: Could not load state information: {AWAY}"
    assert engine(1, away).extend("26", "berth-pilot-1", 9) == Away(away.strip())


def test_an_order_that_has_ended_cannot_be_stopped_and_that_is_no_error():
    ended = "scancel: error: Kill job error on job id 2: Invalid job id specified\n"
    made = engine(1, ended)
    assert made.stop("2", "berth-pilot-1") is None
    assert made.runner.words == ("scancel", "--name=berth-pilot-1", "--user=1000", "2")
    assert engine(1, f"slurm_load_jobs error: {AWAY}").stop("2", "berth-pilot-1") == Away(
        f"slurm_load_jobs error: {AWAY.strip()}"
    )
