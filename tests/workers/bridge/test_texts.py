"""Slurm's own texts, recorded from Debian's Slurm 22.05.8 (without the kernel's version), in `recorded/`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bridge.texts import BETWEEN, gpus_read, minutes, nodes_read, orders_read, seconds_read

RECORDED = Path(__file__).parent / "recorded"


def nodes(name, partition="berth", **more):
    return {each["name"]: each for each in nodes_read((RECORDED / name).read_text(), partition, **more)}


def test_nodes_with_gpus_of_several_types_and_none():
    found = nodes("nodes.txt")
    assert list(found) == ["n1", "n2", "n3", "n4", "n5"]
    assert found["n1"] == {
        "name": "n1",
        "state": "allocated",
        "takes_jobs": True,
        "reason": "",
        "cores": 16,
        "cores_busy": 16,
        "memory_mib": 64000,
        "memory_busy_mib": 64000,
        "gpus": {"a100": 4},
        "gpus_busy": {"a100": 4},
    }
    assert (found["n2"]["gpus"], found["n2"]["gpus_busy"]) == ({"v100": 2, "a100": 2}, {"v100": 1}), (
        "shards are no GPUs"
    )
    assert (found["n3"]["gpus"], found["n3"]["gpus_busy"]) == ({"gpu": 2}, {"gpu": 1}), "without a type"
    assert (found["n4"]["gpus"], found["n4"]["gpus_busy"]) == ({}, {})
    assert found["n5"]["gpus_busy"] == {"a100": 2}


def test_an_admins_words_are_a_reason_and_nothing_else():
    found = nodes("nodes.txt")
    assert (found["n4"]["state"], found["n4"]["takes_jobs"]) == ("idle+drain", False)
    assert found["n4"]["reason"] == 'bad fan, see "ticket" Comment=x | y'
    assert nodes("nodes_odd.txt")["n5"]["reason"] == "Not responding"


def test_a_reason_of_two_lines_with_a_comment_behind_it():
    lines = (RECORDED / "nodes_odd.txt").read_text().splitlines()
    (text,) = (line for line in lines if "Comment=c d" in line)
    (found,) = nodes_read(text, "berth")
    assert (found["state"], found["takes_jobs"], found["reason"]) == ("down", False, "two")


@pytest.mark.parametrize(
    ("state", "takes_jobs"),
    [("IDLE+FAIL", False), ("DOWN+DRAIN+NOT_RESPONDING", False), ("DOWN+NOT_RESPONDING", False), ("DOWN", False)],
)
def test_nodes_that_take_no_jobs(state, takes_jobs):
    lines = (RECORDED / "nodes_odd.txt").read_text().splitlines()
    found = [nodes_read(line, "berth")[0] for line in lines if f" State={state} " in line]
    assert [each["takes_jobs"] for each in found] == [takes_jobs]


@pytest.mark.parametrize("state", ["IDLE+RESERVED", "MIXED+RESERVED"])
def test_a_node_of_a_reservation_takes_the_jobs_that_go_into_it(state):
    text = (RECORDED / "nodes.txt").read_text().replace("State=ALLOCATED", f"State={state}")
    assert not nodes_read(text, "berth")[0]["takes_jobs"]
    assert nodes_read(text, "berth", reservation=True)[0]["takes_jobs"]


@pytest.mark.parametrize(
    ("state", "takes_jobs"), [("IDLE*", False), ("IDLE*+DRAIN", False), ("MIXED-", True), ("IDLE~", True)]
)
def test_marks_that_other_versions_put_behind_a_state(state, takes_jobs):
    text = (RECORDED / "nodes.txt").read_text().replace("State=ALLOCATED", f"State={state}")
    assert nodes_read(text, "berth")[0]["takes_jobs"] is takes_jobs


def test_nodes_of_another_partition():
    assert list(nodes("nodes.txt", "small")) == ["n3", "n4"]
    assert nodes("nodes.txt", "smal") == {}
    assert nodes_read("", "berth") == []
    assert nodes_read("slurm_load_node error: none\n", "berth") == []


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", {}),
        ("gpu:a100:4(S:0-1)", {"a100": 4}),
        ("gpu:a100:2(IDX:0-1,3),gpu:v100:0(IDX:N/A),shard:8", {"a100": 2}),
        ("gpu:4", {"gpu": 4}),
        ("gpu:3090:8(S:0)", {"3090": 8}),
        ("gpu:1g.10gb:7,gpu:a100:1,mps:100", {"1g.10gb": 7, "a100": 1}),
        ("gpu", {"gpu": 1}),
    ],
)
def test_gpus(text, gpus):
    assert gpus_read(text) == gpus


@given(st.text(max_size=60))
def test_any_text_is_read(text):
    gpus_read(text)
    nodes_read(text, "berth")
    nodes_read(f"NodeName=n1 {text}", "berth")
    listed, bad = orders_read(text)
    assert len(listed) + len(bad) <= text.count("\n") + 1


def test_jobs_that_run_wait_and_have_ended():
    found, bad = orders_read((RECORDED / "squeue.txt").read_text())
    assert bad == ["b"], "the second line of a name that somebody else chose"
    jobs = {each["ticket"]: each for each in found}
    assert jobs["2"] == {
        "name": "berth-pilot-2",
        "ticket": "2",
        "state": "ended",
        "reason": "CANCELLED",
        "node": "n2",
        "since": 1796024169.0,
        "ends_at": 1796024171.0,
    }
    assert jobs["3"]["name"] == "odd|name\tx"
    assert (jobs["10"]["state"], jobs["10"]["reason"]) == ("ended", "FAILED: NonZeroExitCode")
    assert jobs["12"]["reason"] == "FAILED: BadConstraints", "a refused order leaves a record"
    assert (jobs["24"]["state"], jobs["24"]["reason"], jobs["24"]["since"]) == ("pending", "", None)


def test_a_lost_node_an_estimate_a_job_without_end_and_an_array():
    found, bad = orders_read((RECORDED / "squeue_later.txt").read_text())
    assert bad == []
    jobs = {each["ticket"]: each for each in found}
    assert jobs["1"]["reason"] == "NODE_FAIL: NodeDown"
    assert jobs["6"] == {
        "name": "berth-pilot-4",
        "ticket": "6",
        "state": "pending",
        "reason": "ReqNodeNotAvail, UnavailableNodes:n5",
        "node": "",
        "since": 1796025060.0,
        "ends_at": None,
    }
    assert (jobs["15"]["state"], jobs["15"]["ends_at"]) == ("running", None)
    assert "berth-arr" not in {each["name"] for each in found}


def test_a_state_that_nobody_knows_is_no_end():
    line = BETWEEN.join(("7", "LEVITATING", "None", "n1", "1", "2", "berth-pilot-1"))
    assert orders_read(line) == ([], [line])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("UNLIMITED", None), ("INFINITE", None), ("01:00:00", 3600), ("1-00:00:00", 86_400), ("30:00", 1800), ("", None)],
)
def test_time_limits(text, seconds):
    assert seconds_read(text) == seconds


def test_minutes_are_rounded_up():
    assert [minutes(each) for each in (0, 1, 60, 61, 3600)] == [1, 1, 1, 2, 60]
