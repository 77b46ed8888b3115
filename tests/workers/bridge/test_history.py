"""The past of a partition, by a `sacct` that prints as that of Debian's Slurm 22.05.8 does."""

import getpass
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.simulator.traces.sacct import FORMAT
from scheduler.simulator.traces.source import Source
from tests.system.helpers.accounting import COLUMNS, month, record, sacct_put
from workers.bridge.command import Answer, Local
from workers.bridge.history import HistoryError, history_read, history_words, nodes_grouped
from workers.bridge.slurm import SlurmEngine

NOW = 1_796_027_668
RECORDED = f"""{COLUMNS}
1|nobody|lab|COMPLETED|{NOW}|{NOW}|00:00:02|billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=2G,node=1|billing=4,cpu=4,gres/gpu=2,mem=2G,node=1
4|root||FAILED|{NOW}|{NOW}|00:00:02|billing=1,cpu=1,gres/gpu:a100=2,gres/gpu=2,mem=250G,node=1|billing=1,cpu=1,gres/gpu=2,mem=250G,node=1
6|daemon|lab|CANCELLED by 0|{NOW}|None|00:00:00||billing=1,cpu=1,gres/gpu=1,mem=250G,node=1
7|root|root|PENDING|{NOW}|Unknown|00:00:00||billing=2,cpu=2,gres/gpu=16,mem=500G,node=2
5_1|root|root|COMPLETED|{NOW}|{NOW + 3}|00:00:01|billing=2,cpu=2,mem=500G,node=2|billing=2,cpu=2,mem=500G,node=2
5_[2-3%2]|root|root|PENDING|{NOW}|Unknown|00:00:00||billing=2,cpu=2,mem=500G,node=2
"""


class Says:
    """A runner whose `sacct` ends so, and whose account is root."""

    def __init__(self, code, err="", out=""):
        self.answer, self.asked = Answer(code, out, err, 0.0), []

    def run(self, *words, text="", limit_s=None):
        if words[0] == "id":
            return Answer(0, "root\n", "", 0.0)
        self.asked.append(words)
        return self.answer


def engine(runner):
    return SlurmEngine(runner, partition="gpu")


def read(runner, days, now=NOW):
    return history_read(engine(runner), days, clock=lambda: now)


def jobs_of(history):
    return list(FORMAT.read(Source("history", history.text.splitlines(keepends=True)), {}))


def test_real_records_lose_their_people_and_keep_what_the_laboratory_needs():
    history = read(Says(0, out=RECORDED), 1, NOW + 60)
    assert history.lines[1] == (
        "1|1|lab|COMPLETED|2026-11-30T08:34:28Z|2026-11-30T08:34:28Z|00:00:02|"
        "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=2G,node=1|billing=4,cpu=4,gres/gpu=2,mem=2G,node=1"
    )
    assert [line.split("|")[1:4] for line in history.lines[2:4]] == [
        ["2", "no-account", "FAILED"],
        ["3", "lab", "CANCELLED"],
    ]
    assert not any(name in history.text for name in ("nobody", "daemon", "by 0"))
    assert [each.job.requirement for each in jobs_of(history)] == [(2,), (2,), (0,)]
    assert not history.own_only
    assert "6 jobs of 3 accounts and 3 users in 1 days.\n" in history_words(history, 1)


def test_days_are_asked_for_one_by_one_and_leave_no_gap():
    runner = Says(0, out=RECORDED)
    assert read(runner, 3, NOW + 60).jobs == 6
    spans = [[word.partition("=now")[2] for word in words if "time=" in word] for words in runner.asked]
    assert spans == [["-259260", "-172800"], ["-172860", "-86400"], ["-86460", ""]]
    assert all({"--allusers", "--allocations", "--partition=gpu"} <= set(words) for words in runner.asked)


def test_jobs_of_before_are_left_out_and_lines_that_are_none_are_counted():
    old = RECORDED.replace(f"|{NOW}|{NOW}|", f"|{NOW - 200_000}|{NOW}|", 1)
    history = read(Says(0, out=f"{old}a banner\n9|x|y|COMPLETED|yesterday|{NOW}|00:00:01||\n"), 1, NOW + 60)
    assert (history.jobs, history.older, history.odd) == (5, 1, 2)
    assert "Warning: 2 of its lines are no jobs" in history_words(history, 1)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            Says(1, "Slurm accounting storage is disabled\n"),
            r"keeps no record of past jobs here .*disabled\). Ask the admin for accounting: AccountingStorageType=",
        ),
        (Says(1, "sacct: error: Invalid partition\n"), "gives no past jobs: sacct: error: Invalid partition"),
        (Says(None, "sacct: no answer within 300 s"), "gives no past jobs: sacct: no answer"),
        (Says(0, out=f"{COLUMNS}\n"), r"lists no job .* to gpu in .*PrivateData.* AdminLevel=Operator"),
        (Says(0, out="JobID|User\n"), "prints other columns than it is asked for: JobID"),
        (Says(0, out=""), "prints other columns"),
    ],
)
def test_what_is_missing_is_said(says, words):
    with pytest.raises(HistoryError, match=words):
        read(says, 1)


def test_an_account_that_sees_its_own_jobs_alone_is_warned():
    mine = "\n".join(line for line in RECORDED.splitlines() if "|root|" in line or line == COLUMNS)
    history = read(Says(0, out=mine), 1, NOW + 60)
    assert history.own_only
    assert "Warning: all of them are your own." in history_words(history, 1)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.integers(1, 5), st.lists(st.tuples(st.integers(0, 500_000), st.integers(1, 400_000)), min_size=1, max_size=12)
)
def test_each_job_of_these_days_counts_once(tmp_path, days, drawn):
    """By a process, with the true clock. A second before and behind the first day's beginning is not tried."""
    now = time.time()
    records = [record(n, submit=now - ago - 5, ran_s=ran, user="ada") for n, (ago, ran) in enumerate(drawn)]
    within = [str(n) for n, (ago, _) in enumerate(drawn) if ago + 5 < days * 86_400 - 30]
    near = {str(n) for n, (ago, _) in enumerate(drawn) if abs(ago + 5 - days * 86_400) <= 30}
    runner = Local(environ={"PATH": str(sacct_put(tmp_path, records))})
    if not within:
        return
    history = history_read(engine(runner), days)
    found = [line.split("|")[0] for line in history.lines[1:]]
    assert sorted(set(found) - near) == sorted(set(within) - near)
    assert len(found) == len(set(found))
    assert history.own_only is (getpass.getuser() == "ada")


def test_a_month_is_a_trace(tmp_path):
    now = time.time()
    runner = Local(environ={"PATH": str(sacct_put(tmp_path, month(2000, now=now)))})
    history = history_read(engine(runner), 30)
    assert (history.jobs, len(history.accounts), len(history.users), history.odd) == (2000, 8, 60, 0)
    assert len(jobs_of(history)) == 2000


def test_alike_nodes_are_one_group():
    one = {"cores": 16, "memory_mib": 64_000, "gpus": {"a100": 4}}
    assert nodes_grouped([one, one | {"gpus": {}}, one]) == [one | {"count": 2}, one | {"count": 1, "gpus": {}}]
