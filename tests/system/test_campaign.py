"""The fault campaign (`tests/system/campaign/`): what its verdict says, and a short one. The long one is run by hand."""

import json

import pytest

from tests.system.campaign import campaign
from tests.system.campaign.__main__ import main
from tests.system.campaign.verdict import judge

SHORT = ["portal killed", "broker forgets all", "job killed", "far agent killed"]


def line(what, job=1, epoch=1, rank=0, pid=10):
    return {"what": what, "job": job, "epoch": epoch, "rank": rank, "pid": pid}


def verdict_on(state, *entries, again=False, killed=()):
    return judge(accepted={1: again}, states={1: state}, entries=entries, killed=set(killed))


RAN = (line("start"), line("done"))
TWICE = (*RAN, line("start", epoch=2, pid=11), line("done", epoch=2, pid=11))


@pytest.mark.parametrize(
    ("state", "entries", "faults"),
    [
        ("COMPLETED", RAN, {}),
        ("COMPLETED", (*RAN, line("start", rank=1, pid=11), line("done", rank=1, pid=11)), {}),
        ("PENDING", (), {"stuck": [1]}),
        ("NODE_FAIL", RAN[:1], {"lost": [1]}),
        ("CANCELLED", (), {"lost": [1]}),
        ("COMPLETED", RAN[:1], {"untrue": [1]}),
        ("COMPLETED", TWICE, {"untrue": [1]}),
        ("COMPLETED", (*RAN, line("violation")), {"overlapping": [1]}),
    ],
)
def test_what_must_not_be(state, entries, faults):
    assert verdict_on(state, *entries).faults == faults


def test_a_submission_that_became_two_jobs():
    assert judge(accepted={}, states={1: "PENDING"}, entries=[], killed=set()).faults == {"unasked": [1]}


def test_who_may_run_again_may_have_ended_well_twice():
    found = verdict_on("COMPLETED", *TWICE, again=True)
    assert (found.faults, found.again) == ({}, [1])


def test_whom_the_campaign_killed_is_not_lost():
    found = verdict_on("FAILED", RAN[0], killed=[10])
    assert (found.faults, found.spoilt) == ({}, [1])
    assert verdict_on("COMPLETED", RAN[0], killed=[10]).faults == {"untrue": [1]}


class Slow:
    """A stage on a busy machine: of its jobs one ends every `each_s`, on a clock that only waiting moves."""

    def __init__(self, each_s, jobs, ends):
        self.at, self.each_s, self.jobs, self.ends = 0.0, each_s, jobs, ends

    def monotonic(self):
        return self.at

    def sleep(self, seconds):
        self.at += seconds

    def rows(self, _):
        ended = min(self.ends, self.at // self.each_s)
        return [(number, "COMPLETED" if number < ended else "PENDING") for number in range(self.jobs)]


@pytest.mark.parametrize(
    ("each_s", "ends", "over"),
    [(1, 10, 10), (200, 10, 10), (1, 4, 4), (301, 10, 0)],
    ids=["quick", "slow", "stuck", "still"],
)
def test_jobs_are_waited_for_as_long_as_one_of_them_moves(monkeypatch, each_s, ends, over):
    stage = Slow(each_s, 10, ends)
    monkeypatch.setattr(campaign, "time", stage)
    assert list(campaign.states_at_last(stage).values()).count("COMPLETED") == over


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.postgres
def test_a_short_campaign(capsys):
    words = ["--seconds", "8", "--seed", "3", "--rate", "1", "--lease", "60", "--faults", ",".join(SHORT), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"] == sum(found["ended"].values()) > 5
    assert set(found["well again after s"]) <= set(SHORT)
    assert not found["spoilt"] or "job killed" in found["well again after s"], (
        "one that may run again is not spoilt by it"
    )


def test_a_fault_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["--faults", "portal killed,portal bored"])
    assert "no such fault: portal bored; there are portal killed, " in capsys.readouterr().err
