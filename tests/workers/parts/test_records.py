"""From a job's records to the portal: once each, over restarts of the agent, and whatever a job writes instead."""

from __future__ import annotations

import base64
import json
import os

from workers.instrument.berth_instrument import SEGMENT_BYTES
from workers.parts.recordlines import LINE_BYTES, RECORDS, record_of, records_read

RECORD = {
    "iterations": 10,
    "samples": 640.0,
    "seconds": 2.0,
    "done": 640.0,
    "total": None,
    "saved": None,
    "batch": 64,
    "world": 1,
    "parameters": None,
    "rows": [[0.1, 0.2, 0.3, 0.1, None, 0.0, 0.8]],
}


def line(**changes):
    return (json.dumps(RECORD | changes) + "\n").encode()


def test_a_true_record_is_taken_as_it_is():
    assert record_of(line()) == RECORD


BAD_RECORDS = [
    b"",
    b"\x00\xff\xfe",
    b"[1]",
    b"null",
    b"{}",
    b"[" * 10_000,
    b'{"iterations": 1e999}',
    line(seconds=float("nan")),
    line(samples=float("inf")),
    line(samples=-1),
    line(done=-0.5),
    line(done=1e300),
    line(iterations=True),
    line(iterations=1.5),
    line(iterations=10**400),
    line(batch=0),
    line(world=None),
    line(rows=None),
    line(rows=[[1.0]]),
    line(rows=[[0.1] * 6 + ["x"]]),
    line(rows=[[0.1] * 6 + [float("nan")]]),
    line(rows=[[0.1] * 7] * 17),
    line(parameters="many"),
    line(padding="x" * LINE_BYTES),
]


def test_bad_records_are_dropped(subtests):
    for bad in BAD_RECORDS:
        with subtests.test(bad=bad):
            assert record_of(bad) is None


def test_records_are_read_in_order_across_segments_and_junk_is_counted(tmp_path):
    (tmp_path / "0").write_bytes(line(done=1.0) + b"junk\n" + line(done=2.0) + b'{"half')
    (tmp_path / "1").write_bytes(line(done=3.0))
    (tmp_path / "not-a-number").write_bytes(b"x")
    done, dropped, offset = [], 0, 0
    while True:
        found = records_read(tmp_path, offset)
        done += [record["done"] for record in found.records]
        dropped += found.dropped
        if found.next_offset == offset:
            break
        offset = found.next_offset
    assert done == [1.0, 2.0, 3.0]
    assert dropped == 2
    assert offset == SEGMENT_BYTES + len(line(done=3.0))


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path):
    (tmp_path / "0").write_bytes(line() + line()[:20])
    found = records_read(tmp_path, 0)
    assert (len(found.records), found.next_offset, found.more) == (1, len(line()), False)
    (tmp_path / "0").write_bytes(line() * 2)
    assert len(records_read(tmp_path, found.next_offset).records) == 1


def test_segments_that_are_gone_are_passed_over(tmp_path):
    (tmp_path / "7").write_bytes(line())
    found = records_read(tmp_path, 123)
    assert found.next_offset == 7 * SEGMENT_BYTES
    assert len(records_read(tmp_path, found.next_offset).records) == 1


def test_one_message_stays_small(tmp_path):
    (tmp_path / "0").write_bytes(line() * (RECORDS + 5))
    found = records_read(tmp_path, 0)
    assert (len(found.records), found.more) == (RECORDS, True)
    assert len(records_read(tmp_path, found.next_offset).records) == 5


def test_an_endless_line_a_link_a_pipe_and_a_directory_hurt_nobody(tmp_path):
    (tmp_path / "secret").write_bytes(line())
    for name in ("link", "pipe", "folder", "endless"):
        (tmp_path / name).mkdir()
    (tmp_path / "link" / "0").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe" / "0")
    (tmp_path / "folder" / "0").mkdir()
    for name in ("link", "pipe", "folder", "nowhere"):
        found = records_read(tmp_path / name, 0)
        assert (found.next_offset, found.records, found.more) == (0, [], False)
    (tmp_path / "endless" / "0").write_bytes(b"x" * (SEGMENT_BYTES + 5))
    offset, turns = 0, 0
    while (found := records_read(tmp_path / "endless", offset)).next_offset > offset:
        offset, turns = found.next_offset, turns + 1
    assert offset <= SEGMENT_BYTES
    assert turns == 4


SCRIPT = """
import os, sys, time
sys.path.append(os.environ["BERTH_INSTRUMENT_PATH"])
from berth_instrument import Recorder
recorder = Recorder(batch_per_gpu=8, total=1000)
open(os.environ["BERTH_RECORDS_DIR"] + "/0", "w").write("junk\\n")
for _ in range(5):
    with recorder.time("data"):
        time.sleep(0.01)
    recorder.step()
"""


def test_the_agent_ships_what_a_job_records_and_an_agent_after_it_goes_on_from_there(portal, node):
    files = {"train.py": base64.b64encode(SCRIPT.encode()).decode()}
    key = portal.want(command='"$BERTH_PYTHON" train.py', files=files, gpus=[0])
    node.start()
    portal.wait_report(key, "ended")
    portal.wait_for(lambda: portal.records.get(key))
    record = portal.records[key][0]
    assert (record["done"], record["total"], record["iterations"]) == (40.0, 1000.0, 3)
    assert portal.records_dropped == 1
    node.kill()
    other = portal.want(attempt=2, job=2, command='"$BERTH_PYTHON" train.py', files=files, gpus=[0])
    node.start()
    portal.wait_report(other, "ended")
    portal.wait_for(lambda: portal.records.get(other))
    assert len(portal.records[key]) == 1


def test_records_that_the_portal_fails_over_hold_back_no_others(portal, node):
    files = {"train.py": base64.b64encode(SCRIPT.encode()).decode()}
    command = '"$BERTH_PYTHON" train.py; exec sleep 600'
    keys = [portal.want(attempt=i, job=i, command=command, files=files) for i in (1, 2, 3)]
    portal.poison.add(keys[0])
    node.start()
    portal.wait_for(lambda: all(portal.records.get(key) for key in keys[1:]))
    portal.poison.clear()
    portal.wait_for(lambda: portal.records.get(keys[0]))
    for key in keys:
        portal.stop(key)
    for key in keys:
        portal.wait_report(key, "ended")
    assert [len(portal.records[key]) for key in keys] == [1, 1, 1]
