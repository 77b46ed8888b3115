"""What a log does not show: secrets, wherever the chunks of a stream are cut."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.work.jobs.log_lines import line_shown
from workers.controls.joblog import JobLog
from workers.controls.secrets import MOST_BYTES, MOST_PIECES, LineMask, Mask, mask_of, pieces_of, secrets_take

TOKEN = "hf_0123456789abcdef"


def masked(values, chunks, kind=Mask):
    mask = kind(pieces_of(values))
    return b"".join(mask.feed(chunk) for chunk in chunks) + mask.end()


def test_a_value_is_not_shown_wherever_it_is_cut():
    text = f"before {TOKEN} after {TOKEN}{TOKEN}!".encode()
    for cut in range(len(text)):
        assert masked([TOKEN], [text[:cut], text[cut:]]) == b"before *** after ******!"
    assert masked([TOKEN], [bytes([byte]) for byte in text]) == b"before *** after ******!"


def test_what_only_begins_a_value_is_shown_in_the_end():
    assert masked([TOKEN], [b"hf_", b"0123", b"\n"]) == b"hf_0123\n"
    assert masked([TOKEN], [b"hf_0123"]) == b"hf_0123"


def test_values_that_overlap_leave_nothing_over():
    values = ["12345678", "78abcdefgh", "12345678z"]
    for chunks in ([b"x1234567", b"8abcdefghy"], [b"x12345678abc", b"defghy"], [b"x12345678abcdefghy"]):
        assert masked(values, chunks) == b"x***y"
    assert masked(["aaaaaaaa"], [b"a" * 7, b"a" * 9, b"b"]) == b"***b"


def test_each_longer_line_of_a_value_counts_and_short_ones_do_not():
    key = "-----BEGIN PRIVATE KEY-----\nAAAABBBBCCCCDDDD\nshort\n"
    assert masked([key], [b"a AAAABBBBCCCCDDDD short"]) == b"a *** short"
    assert masked(["x" * 5000], [b"x" * 3000, b"x" * 2000, b"."]) == b"***."


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_cut_of_any_text_shows_any_value(data):
    values = data.draw(st.lists(st.text("ab", min_size=8, max_size=14), min_size=1, max_size=3))
    parts = data.draw(st.lists(st.one_of(st.text("abc", max_size=6), st.sampled_from(values)), max_size=8))
    text = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = masked(values, chunks)
    assert not any(value.encode() in shown for value in values)
    assert shown == masked(values, [text])


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_mask_of_lines_shows_no_value_and_all_before_it_wherever_it_is_cut(data):
    values = data.draw(st.lists(st.text("ab", min_size=8, max_size=14), min_size=1, max_size=3))
    parts = data.draw(st.lists(st.one_of(st.text("ab\n", max_size=6), st.sampled_from(values)), max_size=8))
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[a:b].encode() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    lines = []
    for line in text.split("\n"):
        begins = [line.find(value[:8]) for value in values if value[:8] in line]
        lines.append(f"{line[: min(begins)]}***" if begins else line)
    assert masked(values, chunks, LineMask).decode() == "\n".join(lines)


CODES = [
    b"\x1b[1;31m",
    b"\x1b[K",
    b"\x1b]8;;http://x\x1b\\",
    b"\x1b]0;t\x07",
    b"\x1b(B",
    b"\x00",
    "\x85".encode(),
    "\ufeff".encode(),
]


@pytest.mark.parametrize("kind", [Mask, LineMask])
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_code_within_a_value_gives_it_away(kind, data):
    """What is shown of a line drops codes; a value that was coloured in part must not stand there whole."""
    token = data.draw(st.sampled_from([b"abcdefgh", b"aabaabaab", b"hf_0123456789"]))
    text = b""
    for byte in (b"a" + token + b"x" + token[:5] + b"\n" + token)[:60]:
        text += b"".join(data.draw(st.lists(st.sampled_from(CODES), max_size=2))) + bytes([byte])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    lines = masked([token.decode()], chunks, kind).split(b"\n")
    assert len(lines) == 2
    assert not any(token.decode() in line_shown(line) for line in lines)
    assert "***" in line_shown(lines[0])


@pytest.mark.parametrize("kind", [Mask, LineMask])
def test_codes_without_end_hold_back_a_bounded_part(kind):
    mask = kind(pieces_of([TOKEN]))
    shown = sum(len(mask.feed(data)) for data in [TOKEN[:5].encode(), *[b"\x1b[1m" * 1000] * 50])
    assert shown >= 4000 * 40


def test_a_mask_of_lines_holds_nothing_back_that_begins_no_value():
    mask = LineMask([b"12345678"])
    assert [mask.feed(each) for each in (b"ready 12", b"3 x", b"1234567", b"8 y", b"\nz")] == [
        b"ready ",
        b"123 x",
        b"",
        b"***",
        b"\nz",
    ]


def test_very_many_secrets_cost_a_log_no_more_than_some():
    values = ["\n".join(f"{number:02}-{line:05}" for line in range(3600)) for number in range(32)]
    began = time.process_time()
    log, mask = b"a line of a log\n" * 4096, mask_of(pieces_of(values))
    assert mask.feed(log) == log
    assert [mask.feed(b"x") for _ in range(1000)] == [b"x"] * 1000
    assert mask.feed(b"its token is 31-03599 and so on\n") == b"its token is ***\n"
    assert time.process_time() - began < 2  # whole, they took 150 s


def test_many_pieces_are_looked_for_by_their_beginnings():
    few = [b"%08d" % number for number in range(MOST_PIECES)]
    assert type(mask_of(few)) is Mask
    assert type(mask_of([*few, b"another one"])) is LineMask
    assert type(mask_of([b"x" * (MOST_BYTES // 2)] * 2)) is Mask
    assert type(mask_of([b"x" * (MOST_BYTES // 2 + 1)] * 2)) is LineMask


def test_a_log_holds_back_and_writes_the_rest_at_its_end(tmp_path):
    log = JobLog.under(tmp_path, 100, pieces_of([TOKEN]))
    writers = [stream.open() for stream in log.streams]
    for chunk in (f"a {TOKEN[:5]}", f"{TOKEN[5:]} b {TOKEN[:4]}"):
        os.write(writers[0], chunk.encode())
        log.pump()
    for writer in writers:
        os.close(writer)
    log.finish()
    assert (tmp_path / "stdout").read_text() == f"a *** b {TOKEN[:4]}"


def test_what_the_agent_gives_is_taken_from_standard_input_once(tmp_path):
    given_file = tmp_path / "given"
    given_file.write_text(json.dumps({"environment": {"TOKEN": TOKEN}, "code": ""}))
    before = os.dup(0)
    try:
        with given_file.open("rb") as file:
            os.dup2(file.fileno(), 0)
        launch = {"environment": {"A": "1"}}
        secrets_take(launch)
        assert launch["environment"] == {"A": "1", "TOKEN": TOKEN}
        assert launch["masked"] == [TOKEN.encode()]
        again = {"environment": {}}
        secrets_take(again)
        assert "did not reach its shim" in again["not_handed"]
    finally:
        os.dup2(before, 0)
