"""Curves of `metrics.jsonl` and of TensorBoard's event files, put together over restarts."""

import json

import pytest

from portal.work.previews.curves import files, points
from portal.work.previews.curves.events import masked
from portal.work.previews.curves.files import curve_files, points_of
from portal.work.previews.curves.points import Curve
from tests.portal.work.previews.given import crc, framed, message, preview_of, scalar_event, source


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def read(*files):
    return points_of([source(name, data) for name, data in files])


def test_lines_become_curves_by_name():
    found = read(
        (
            "metrics.jsonl",
            lines({"step": 1, "loss": 3, "note": "x", "time": 9}, {"step": 2, "loss": 2.5, "val": {"acc": 0.5}}),
        )
    )
    assert {name: (each.steps, each.values) for name, each in found.curves.items()} == {
        "loss": ([1, 2], [3, 2.5]),
        "val/acc": ([2], [0.5]),
    }


@pytest.mark.parametrize("name", ["step", "global_step", "iteration", "epoch"])
def test_steps_have_several_names(name):
    assert read(("a/metrics.jsonl", lines({name: 7, "loss": 1}))).curves["loss"].steps == [7]


def test_lines_without_a_step_are_numbered():
    assert read(("metrics.jsonl", lines({"loss": 3}, {"loss": 2}))).curves["loss"].steps == [0, 1]


def test_a_half_written_last_line_is_left_out_and_a_whole_one_is_not():
    assert read(("metrics.jsonl", '{"step":1,"loss":1}\n{"step":2,"lo')).curves["loss"].steps == [1]
    assert read(("metrics.jsonl", '{"step":1,"loss":1}\n{"step":2,"loss":1}')).curves["loss"].steps == [1, 2]


def test_a_damaged_line_is_counted_and_the_rest_is_read():
    found = read(("metrics.jsonl", '{"step":1,"loss":1}\nTraceback\n[1]\n{"step":2,"loss":1}\n'))
    assert (found.curves["loss"].steps, found.damaged) == ([1, 2], 2)


def test_what_is_no_finite_number_is_a_gap_and_counted():
    found = read(
        (
            "metrics.jsonl",
            '{"step":1,"loss":NaN}\n{"step":2,"loss":1e999}\n{"step":3,"loss":-Infinity}\n{"step":4,"loss":1}\n',
        )
    )
    assert (found.curves["loss"].values, found.not_finite) == ([None, None, None, 1], 3)


def test_a_restart_takes_the_place_of_what_was_lost():
    curve = Curve()
    for step in (*range(1, 31), *range(11, 26)):
        curve.add(step, float(step >= 11))
    assert curve.steps == list(range(1, 26))


def test_steps_that_come_late_are_put_in_their_place():
    curve = Curve()
    for step in (1, 3, 2, 4):
        curve.add(step, step)
    assert curve.steps == [1, 2, 3, 4]


def test_a_long_curve_keeps_its_peaks_and_its_end():
    curve = Curve(list(range(100_000)), [0.0] * 100_000)
    curve.values[54_321] = 9.0
    steps, values = curve.thinned()
    assert len(steps) <= 1201
    assert (values[steps.index(54_321)], steps[-1]) == (9.0, 99_999)
    assert steps == sorted(set(steps))


def test_checksums_are_those_of_the_standard():
    """RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 8a9136aa; TFRecord rotates it and adds a constant."""
    found = [masked(each) for each in (b"\0" * 32, b"hello", b"")]
    plain = 0x8A9136AA
    expected = ((plain >> 15 | plain << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32
    assert found == [expected, crc(b"hello"), crc(b"")]


def event_file(*events):
    return framed(message((1, ("d", 1.7e9)), (3, b"brain.Event:2"))) + b"".join(events)


def test_scalars_of_an_event_file():
    found = read(
        ("tb/events.out.tfevents.1.host", event_file(scalar_event(1, loss=3.0), scalar_event(2, loss=2.5, acc=0.5)))
    )
    assert {name: (each.steps, each.values) for name, each in found.curves.items()} == {
        "loss": ([1, 2], [3, 2.5]),
        "acc": ([2], [0.5]),
    }


def test_scalars_that_tensorflow_writes_as_tensors():
    tensor = message((1, 1), (2, b""), (4, b"\0\0\0\x40"))
    event = framed(message((2, 5), (5, message((1, message((1, b"loss"), (8, tensor)))))))
    assert read(("events.out.tfevents.1", event_file(event))).curves["loss"].values == [2.0]


def test_files_of_one_folder_are_one_run_and_those_of_two_are_two():
    one, two = event_file(*(scalar_event(step, loss=1.0) for step in range(20))), event_file(scalar_event(12, loss=2.0))
    together = read(("tb/events.out.tfevents.1", one), ("tb/events.out.tfevents.2", two))
    assert together.curves["loss"].steps[-1] == 19
    assert list(read(("a/events.out.tfevents.1", one), ("b/events.out.tfevents.2", two)).curves) == ["a/loss", "b/loss"]


def test_a_damaged_record_is_passed_over():
    first, second, third = (scalar_event(step, loss=1.0) for step in (1, 2, 3))
    broken = second[:20] + b"\xff" + second[21:]
    found = read(("events.out.tfevents.1", event_file(first, broken, b"rubbish", third)))
    assert (found.curves["loss"].steps, found.damaged) == ([1, 3], 1)


def test_a_long_event_file_is_read_in_blocks_to_its_end(monkeypatch):
    monkeypatch.setattr(points, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(files, "MOST_BLOCKS", 4)
    event = event_file(*(scalar_event(step, loss=float(step)) for step in range(2000)))
    found = read(("events.out.tfevents.1", event))
    assert found.thinned
    assert found.curves["loss"].steps[-1] == 1999
    assert found.curves["loss"].steps[0] == 0
    assert 100 < len(found.curves["loss"].steps) < 500
    assert found.damaged == 0


def test_long_lines_are_read_in_blocks_to_their_end(monkeypatch):
    monkeypatch.setattr(points, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(files, "MOST_BLOCKS", 4)
    found = read(("metrics.jsonl", lines(*({"step": step, "loss": 1} for step in range(2000)))))
    assert (found.thinned, found.damaged) == (True, 0)
    assert (found.curves["loss"].steps[0], found.curves["loss"].steps[-1]) == (0, 1999)


def test_pictures_in_between_are_passed_over():
    picture = framed(message((2, 1), (5, message((1, message((1, b"img"), (4, b"P" * 20_000)))))))
    found = read(("events.out.tfevents.1", event_file(scalar_event(1, loss=1.0), picture, scalar_event(2, loss=2.0))))
    assert found.curves["loss"].steps == [1, 2]


def test_which_files_are_read():
    names = [
        "b/metrics.jsonl",
        "events.out.tfevents.1",
        "my_metrics.jsonl",
        "a.csv",
        "metrics-10.jsonl",
        "metrics-2.jsonl",
    ]
    names.append("metrics-x.jsonl")
    assert curve_files(names) == ["b/metrics.jsonl", "events.out.tfevents.1", "metrics-2.jsonl", "metrics-10.jsonl"]
    assert preview_of(source("b/metrics.jsonl", "{}")).kind == "curves"


def test_a_file_for_each_attempt_is_one_curve():
    early = lines(*({"step": step, "loss": 1} for step in range(40)))
    late = lines(*({"step": step, "loss": 2} for step in range(20, 30)))
    found = read(("metrics-0.jsonl", early), ("metrics-1.jsonl", late))
    assert found.curves["loss"].steps == list(range(30))
    assert found.curves["loss"].values[20:] == [2] * 10


def test_an_attempt_on_several_nodes_goes_on_with_the_curve_of_one_on_one_node():
    late = lines(*({"step": step, "loss": 2} for step in (2, 3)))
    names = ["part-1/metrics-1.jsonl", "part-0/metrics-1.jsonl", "metrics-2.jsonl", "metrics-0.jsonl"]
    told = {"metrics-0.jsonl": lines({"step": 1, "loss": 1}), "metrics-2.jsonl": lines({"step": 4, "loss": 3})}
    found = read(*((name, told.get(name, late)) for name in curve_files(names)))
    assert {name: each.steps for name, each in found.curves.items()} == {"loss": [1, 2, 3, 4], "part-1/loss": [2, 3]}


def test_a_curve_knows_when_its_points_were_written_where_that_is_told():
    at = 1_700_000_000.5
    told = lines(
        {"step": 1, "loss": 3, "time": at},
        {"step": 2, "loss": 2, "timestamp": at + 1},
        {"step": 3, "loss": 1, "time": 9},
    )
    assert read(("metrics.jsonl", told)).curves["loss"].times == {1: at, 2: at + 1}
    events = ("events.out.tfevents.1", event_file(scalar_event(7, loss=0.5)))
    assert read(events).curves["loss"].times == {7: 1.7e9}
