"""Each look at a tenant's file is a process of its own: the worst file costs that process, and a sentence."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.work.previews import asking
from portal.work.previews.asking import Busy, Given, TooCostly, asked, plain, understood
from portal.work.previews.shown import shown_of
from tests.portal.work.previews.given import looked


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def zipped(pickle):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", pickle)
    return held.getvalue()


def memory(times):
    return zipped(b"\x80\x04" + text(b"a" * 3_000_000) + b"\x94" + b"h\0h\0\x93" * times + b".")


def processor(times):
    storage = b"\x8c\x05torch" + text(b"." + b"a" * 3_500_000) + b"\x93\x94\x8c\x07storageh\0\x86Q\x94"
    tensor = b"\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93\x94(h\x01K\0K\x01\x85t\x94h\x02h\x03R\x94"
    return zipped(b"\x80\x04" + storage + tensor + b"](" + b"h\x04" * times + b"e.")


@pytest.mark.parametrize("bomb", [memory, processor])
def test_a_small_checkpoint_that_unfolds_to_gibibytes_is_a_sentence(bomb):
    shown = shown_of(looked("a.pt", bomb(99_000)))
    assert (shown.kind, shown.why.startswith("No preview: a name in it is longer")) == ("nothing", True)


def test_honest_files_are_told_as_before():
    assert shown_of(looked("x.csv", b"a,b\n1,2\n")).rows == [["1", "2"]]
    assert looked("metrics.jsonl", b'{"step":1,"loss":2}\n', "curves")["series"] == {"loss": [[1.0], [2.0]]}


def test_a_far_file_is_brought_piece_by_piece():
    data = b"a,b\n1,2\n"
    far = Given("x.csv", 8, os.memfd_create("x"), lambda start, length: data[start : start + length])
    assert shown_of(asked("far", "preview", lambda: [far])).rows == [["1", "2"]]


def test_a_reader_that_ends_before_its_piece_has_come_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(CHILD + "os.write(1, b'0 0 8\\n')")
    monkeypatch.setattr(asking, "PROGRAM", str(tmp_path / "program.py"))

    def fetch(_start, length):
        time.sleep(1)  # it has ended by then
        return b"x" * length

    with pytest.raises(TooCostly, match="too costly to show"):
        asked("ended", "preview", lambda: [Given("x", 8, os.memfd_create("x"), fetch)])


CHILD = "import json,os,sys; json.load(open(int(sys.argv[1]))); "


@pytest.mark.parametrize(
    "code",
    [
        "b'x' * 10**9",
        "exec('while True: pass')",
        "os.write(1, b'{' + b'x' * 2**21)",
        "import time; time.sleep(99)",
        "os.write(1, b'[' * 90000)",
        "os.write(1, b'{\"costly\": true}')",
        "os.write(1, b'what?\\n')",
        "os.write(1, b'0 0 8\\n')",
        "os.write(1, b'9 0 8\\n')",
        "os.write(1, b'-1 0 8\\n')",
    ],
)
def test_what_a_reader_that_fails_says_is_one_sentence(code, tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(CHILD + code)
    monkeypatch.setattr(asking, "PROGRAM", str(tmp_path / "program.py"))
    monkeypatch.setattr(asking, "LIMIT_S", 1.0)
    with pytest.raises(TooCostly, match="too costly to show"):
        looked("x", b"x")


def test_a_fifth_is_told_to_try_again_and_the_same_file_is_read_once(monkeypatch):
    go, runs = threading.Event(), []
    monkeypatch.setattr(asking, "PATIENCE_S", 0.1)
    monkeypatch.setattr(asking, "_run", lambda what, files: runs.append(what) or go.wait(30) or {"a": 1})

    def opened():
        return []

    threads = [threading.Thread(target=asked, args=(str(key), str(key), opened)) for key in (0, 0, 1, 2, 3)]
    for each in threads:
        each.start()
    while len(runs) < 4:
        threading.Event().wait(0.01)
    with pytest.raises(Busy, match="Try again"):
        asked("5", "5", opened)
    go.set()
    for each in threads:
        each.join()
    assert sorted(runs) == ["0", "1", "2", "3"]


def test_a_reader_that_was_taken_over_reaches_nothing(tmp_path):
    """The walls of the real program, and then what a reader might try."""
    code = """
import importlib.util, json, os, signal, socket, sys
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
program._walls(2)
held = {}
for name, act in {
    "file": lambda: open("/etc/passwd"), "socket": socket.socket, "write": lambda: os.write(1, b"x"),
    "memory": lambda: bytearray(2**28),
}.items():
    try:
        act()
    except (OSError, MemoryError):
        held[name] = True
os.write(2, json.dumps(held).encode())
"""
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, asking.PROGRAM],
            env={},
            stdout=out,
            stderr=subprocess.PIPE,
            check=True,
            preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        )
    assert json.loads(done.stderr) == dict.fromkeys(("file", "socket", "write", "memory"), True)


WORDS = st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=12)


@settings(deadline=None)
@given(st.recursive(WORDS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=8))
def test_no_half_of_a_pair_passes(value):
    told = understood(json.dumps({"x": value}).encode())
    json.dumps(told, ensure_ascii=False).encode()
    assert "\\u0000" not in json.dumps(told)
    assert plain(told) == told


@pytest.mark.parametrize("name", ["metrics.jsonl", "x.jsonl", "x.ipynb", "x.csv", "x.safetensors"])
def test_half_a_pair_in_any_file_is_shown(name):
    data = json.dumps({"step": 1, "\ud800a\0": 1, "b": "\udfff"}).encode()
    data = struct.pack("<Q", len(data)) + data if name == "x.safetensors" else data + b"\n"
    told = looked(name, data, "curves" if name == "metrics.jsonl" else "preview")
    json.dumps(told, ensure_ascii=False).encode()
