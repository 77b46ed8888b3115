"""Files made to hurt who looks at them: each is answered with a preview or a sentence, from a set number of bytes."""

import io
import json
import struct
import time
import zipfile
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.work.previews.curves.files import points_of
from portal.work.previews.curves.points import MOST_CURVES
from portal.work.previews.source import MOST_BYTES, Source, Unreadable
from tests.portal.work.previews.given import Endless, crc, framed, message, preview_of, scalar_event, source
from tests.portal.work.previews.test_kinds import png

GIB = 2**30


def packed(name, data, *, how=zipfile.ZIP_DEFLATED, times=1):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", how) as archive, archive.open(name, "w") as part:
        for _ in range(times):
            part.write(data)
    return held.getvalue()


def npy(head):
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head


def test_a_file_of_four_gibibytes_is_read_in_part(subtests):
    names = ("a.txt", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.npz", "a.pt", "a.safetensors", "a.png", "a")
    patterns = (b"x", b"\0", b"[", b'{"a":', b"1,", b"\n", b'"', b"\x93NUMPY\1\0", b"\x80\2", b"\xff\xd8\xff\xe0")
    for name, pattern in product(names, patterns):
        with subtests.test(name=name, pattern=pattern):
            endless = Endless(4 * GIB, pattern)
            began = time.process_time()
            preview_of(endless.source(name))
            assert endless.read_bytes <= MOST_BYTES
            assert time.process_time() - began < 5


@pytest.mark.slow
def test_curves_of_four_gibibytes_are_read_in_part(subtests):
    patterns = (b"x", b"\0", b'{"a":1}\n', b'{"step":1,"a":2}', scalar_event(3, loss=1.0), b"\n")
    for name, pattern in product(["metrics.jsonl", "events.out.tfevents.1"], patterns):
        with subtests.test(name=name, pattern=pattern):
            endless = Endless(4 * GIB, pattern)
            points_of([endless.source(name)])
            assert endless.read_bytes <= MOST_BYTES


def test_a_source_gives_no_more_than_its_bytes():
    endless = Source("x", 4 * GIB, lambda start, length: b"x" * length, left=100)
    endless.at(0, 60)
    with pytest.raises(Unreadable):
        endless.at(60, 60)


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["a.npz", "a.pt"])
def test_an_archive_that_unfolds_to_much_is_not_unfolded(name, how, memory_of):
    member = "x.npy" if name == "a.npz" else "archive/data.pkl"
    bomb = packed(member, b"\x80\x02" + b"\0" * (2**20 - 2), how=how, times=24)
    assert memory_of(lambda: preview_of(source(name, bomb))) < 12 * 2**20


@pytest.fixture
def memory_of():
    import tracemalloc

    def measured(act):
        tracemalloc.start()
        act()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    return measured


def test_an_archive_with_very_many_names_is_not_listed():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number:06}", b"")
    assert preview_of(source("a.zip", held.getvalue())).kind == "nothing"


def test_an_archive_whose_directory_lies_is_refused():
    good = packed("x.npy", b"abc")
    at = good.rindex(b"PK\5\6")
    for change in (b"\xff" * 4, b"\0" * 4, struct.pack("<I", 2**31)):
        bad = good[: at + 12] + change + good[at + 16 :]
        assert preview_of(source("a.npz", bad)).kind in ("nothing", "inside", "text")


@pytest.mark.parametrize(("width", "height"), [(2**31 - 1, 2**31 - 1), (0, 5), (100_000, 1), (16_000, 16_000)])
def test_a_picture_of_absurd_size_is_not_shown(width, height):
    shown = preview_of(source("a.png", png(width, height)))
    assert shown.kind == "nothing"
    assert f"{width} by {height} pixels" in shown.why


def test_a_picture_that_is_cut_off_is_not_shown(subtests):
    for cut in range(33):
        with subtests.test(cut=cut):
            for data in (png(5, 5), b"\xff\xd8\xff\xe0\0\x02" * 6, b"GIF89a\1", b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 20):
                preview_of(source("a", data[:cut]))


def test_a_table_of_a_million_columns_shows_a_few():
    shown = preview_of(source("a.csv", ",".join(map(str, range(1_000_000))) + "\n" + "1," * 1_000_000))
    assert len(shown.head) == 24
    assert "24 of " in shown.rest


def test_a_table_with_a_cell_of_a_megabyte_is_shown_as_text():
    assert preview_of(source("a.csv", 'a,"' + "x" * 2**20)).kind == "text"


def test_lines_of_a_hundred_thousand_levels():
    for deep in ("[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000):
        assert preview_of(source("a.json", deep)).kind == "text"
        assert preview_of(source("a.jsonl", deep)).kind == "text"
        assert points_of([source("metrics.jsonl", deep + "\n")]).curves == {}


def test_ten_thousand_names_of_curves_are_counted_and_few_are_kept():
    record = json.dumps({f"name-{number}": 1 for number in range(1500)})
    found = points_of([source("metrics.jsonl", f"{record}\n{record}\n".replace(": 1", ":1"))])
    other = points_of([source("metrics.jsonl", "".join(f'{{"n{number}":1}}\n' for number in range(10_000)))])
    assert (len(other.curves), len(other.others)) == (MOST_CURVES, 10_000 - MOST_CURVES)
    assert len(found.curves) <= MOST_CURVES


def test_numbers_that_no_float_holds():
    text = (
        '{"step":1e999,"a":1}\n{"step":'
        + "9" * 400
        + ',"a":1}\n{"step":1,"a":'
        + "9" * 4000
        + '}\n{"step":2,"a":'
        + "9" * 9000
        + "}\n"
    )
    found = points_of([source("metrics.jsonl", text)])
    assert (found.curves["a"].steps, found.curves["a"].values, found.damaged) == ([1], [None], 3)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**63 - 1, 2**32, 5000])
def test_an_event_that_says_it_is_endless_is_passed_over(length):
    head = struct.pack("<Q", length)
    lie = head + struct.pack("<I", crc(head))
    found = points_of([source("events.out.tfevents.1", scalar_event(1, a=1.0) + lie + scalar_event(2, a=2.0))])
    assert found.curves["a"].steps == [1, 2]


@pytest.mark.parametrize(
    "body", [b"\xff" * 30, b"\x0a\xff\xff\xff\xff\x0f", b"\x10", b"\x2a\x02\x0a\x7f", b"\x0b", b""]
)
def test_events_with_damaged_messages_are_counted(body):
    found = points_of([source("events.out.tfevents.1", framed(body) + framed(message((2, 1), (5, body))))])
    assert found.curves == {}


def test_a_shape_that_no_disk_holds():
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 200 + b",), }"
    assert preview_of(source("a.npy", npy(head))).kind in ("nothing", "text")


@pytest.mark.parametrize("shape", [b"1\n2,", b"1 2,", b"1\x0b2", b"\xa01\xa02,", b"1,," + b"\n" * 400 + b"3 3"])
def test_a_shape_whose_numbers_are_broken_is_told_as_text(shape):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + b"), }"
    assert preview_of(source("a.npy", npy(head))).kind in ("nothing", "text")


def test_headers_that_begin_again_and_again_are_read_once():
    """Tried anew from each beginning, three hundred of them took five seconds."""
    head = (b"'descr':[" * 250).ljust(4000, b"]")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(300):
            archive.writestr(f"{number}.npy", npy(head))
    began = time.process_time()
    assert {each.what for each in preview_of(source("a.npz", held.getvalue())).members} == {
        "not an array that can be read"
    }
    assert time.process_time() - began < 1


@pytest.mark.parametrize("length", [0, 1, 2**20 + 1, 2**63])
def test_safetensors_with_a_header_that_cannot_be(length):
    assert preview_of(source("a.safetensors", struct.pack("<Q", length) + b"\0\1\2{}" * 20)).kind == "nothing"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.binary(max_size=300),
    st.sampled_from(["a.npy", "a.npz", "a.pt", "a.csv", "a.json", "a.jsonl", "a.safetensors", "a.webp", "a"]),
)
def test_no_bytes_make_it_fail(data, name):
    for start in (b"", b"PK\3\4", b"\x93NUMPY\1\0\x20\0", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"\x20\0\0\0\0\0\0\0"):
        preview_of(source(name, start + data))
    points_of([source("metrics.jsonl", data), source("events.out.tfevents.1", framed(data))])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_no_change_of_an_archive_makes_it_fail(place, change):
    good = packed("archive/data.pkl", b"\x80\x02}X\x04\x00\x00\x00stepK\x03s.")
    place %= len(good)
    for name in ("a.pt", "a.npz", "a.zip"):
        preview_of(source(name, good[:place] + change + good[place + len(change) :]))
