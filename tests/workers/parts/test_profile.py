"""A profile on a node (algorithms.md section 2): in scratch, with BERTH_PROFILE=1, for its limit at most, told before its end."""

from __future__ import annotations

import base64

import pytest

from tests.remains import processes_of
from tests.workers.conftest import ROOT, wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]  # agents and jobs as processes of their own, waited for


def files(**named):
    return {f"{name}.py": base64.b64encode(text.encode()).decode() for name, text in named.items()}


def test_an_example_ends_by_itself_and_its_records_are_with_the_portal_before_its_end(portal, node):
    script = (ROOT / "examples/charlm/train.py").read_text()
    command = '"$BERTH_PYTHON" train.py --steps 1000000 && ls -A "$BERTH_CHECKPOINT_DIR"'
    key = portal.want(command=command, files=files(train=script), gpus=[0], profile=True, time_limit_s=300)
    before = {}
    portal.hello["report_period_s"] = 60  # only the end itself brings the records
    node.start()

    def seen():
        if (report := portal.report_of(key, "ended")) and not before:
            before.update(ended=report, records=list(portal.records.get(key, ())))
        return before

    portal.wait_for(seen, within_s=280)
    assert before["ended"]["exit_code"] == 0
    rows = [row for record in before["records"] for row in record["rows"]]
    assert 10 <= len(rows) <= 50
    assert all(row[1] > 0 and row[2] > 0 for row in rows), "forward and backward are told"
    assert b"profiled, that is enough" in portal.logs[key[0], key[1], key[2], "stdout"]
    assert not (node.directory / "storage/checkpoints").exists()


def test_the_node_itself_ends_one_that_takes_too_long_soon_after_its_limit(portal, node):
    command = 'trap "" TERM; echo $BERTH_PROFILE; while true; do sleep 0.1; done'
    key = portal.want(command=command, profile=True, time_limit_s=4)  # time enough to set the trap
    portal.hello["grace_s"] = 30
    node.start()
    started = portal.wait_report(key, "running")
    ended = portal.wait_report(key, "ended")
    assert (ended["reason"], ended["signal"]) == ("time_limit", 9)
    assert ended["at"] - started["at"] < 4 + 30, "the limit and a profile's short grace, not a job's"
    assert portal.logs[*key, "stdout"] == b"1\n"
    wait_until(lambda: not processes_of(node.part(key)))


def test_neither_checkpoints_nor_the_tenants_own_directory_are_changed(portal, node, tmp_path):
    own = tmp_path / "own"
    (own / "data").mkdir(parents=True)
    (own / "data" / "x").write_text("precious")
    command = 'cat data/x; echo new > data/x; echo more > y; echo saved > "$BERTH_CHECKPOINT_DIR/z"; echo h > ~/h'
    key = portal.want(command=command, profile=True, working_directory=str(own))
    node.start("--accounts", "off")  # whose jobs see the machine's /tmp
    assert portal.wait_report(key, "ended")["exit_code"] == 0
    portal.wait_for(lambda: portal.logs.get((*key, "stdout")) == b"precious")
    assert (own / "data" / "x").read_text() == "precious"
    assert not (own / "y").exists()
    assert not list((node.directory / "storage").rglob("z"))


def test_a_directory_that_is_too_large_is_not_copied_and_the_profile_says_so(portal, node, tmp_path):
    (tmp_path / "own").mkdir()
    with (tmp_path / "own/large").open("wb") as file:
        file.truncate(65 << 20)
    key = portal.want(command="true", profile=True, working_directory=str(tmp_path / "own"))
    node.start("--accounts", "off")
    ended = portal.wait_report(key, "ended")
    assert ended["reason"] == "start_failed"
    assert "holds more than 64 MiB" in ended["detail"]
