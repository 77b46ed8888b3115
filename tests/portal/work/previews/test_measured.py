"""What a look costs at most, as the kernel counts it (`wait4`) for the process itself, whatever the file is."""

import json
import subprocess
import sys

import pytest

from portal.work.previews import asking, program
from tests.portal.work.previews.test_apart import memory, processor, zipped
from tests.portal.work.previews.test_checkpoints import checkpoint

MEASURES = """
import json, os, sys
path, name = sys.argv[2:]
file, order = os.open(path, os.O_RDONLY), os.memfd_create("order", 0)
os.set_inheritable(file, True)
given = {"place": 0, "name": name, "size": os.fstat(file).st_size, "file": file, "far": False}
what = "curves" if name.startswith("metrics") else "preview"
os.write(order, json.dumps({"what": what, "files": [given], "portal": os.getpid()}).encode())
os.lseek(order, 0, 0)
read, write = os.pipe()
argv = [sys.executable, "-I", "-S", sys.argv[1], str(order)]
child = os.posix_spawn(sys.executable, argv, {}, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)])
os.close(write)
with open(read, "rb") as out:
    answer = out.read().decode()
_, status, used = os.wait4(child, 0)
cpu_s = used.ru_utime + used.ru_stime
print(json.dumps({"answer": answer, "status": status, "MiB": used.ru_maxrss / 1024, "cpu_s": cpu_s}))
"""
"""The parent is small: the kernel counts for a child also what its parent had before the child began its own program."""


def measured(tmp_path, name, data):
    (tmp_path / "file").write_bytes(data)
    argv = [sys.executable, "-I", "-S", "-c", MEASURES, asking.PROGRAM, str(tmp_path / "file"), name]
    told = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    print(f"{name}: {told['MiB']:.0f} MiB, {told['cpu_s']:.2f} s of processor")
    return told


LISTS = b"\x80\x02" + b"]" * 4_000_000
WORST = {
    "memory.pt": lambda: memory(99_000),
    "processor.pt": lambda: processor(99_000),
    "lists.pt": lambda: zipped(LISTS),
    "calls.pt": lambda: zipped(b"\x80\x02(]q\0cos\nsystem\nq\1" + b"h\1h\0R" * 190_000 + b"l."),
    "memo.pt": lambda: zipped(b"\x80\x04]" + b"\x94" * 900_000 + b"."),
    "kept.pt": lambda: zipped(b"\x80\x02" + b"".join(b"]r" + n.to_bytes(4, "little") for n in range(490_000)) + b"."),
    "texts.pt": lambda: checkpoint({f"{n:x}": "\u0101" for n in range(200_000)}),
    "deep.json": lambda: b"[" * 4_000_000,
    "wide.json": lambda: b"[" + b"{}," * 1_300_000 + b"{}]",
    "names.jsonl": lambda: b"".join(b'{"%d":{}}\n' % n for n in range(90_000)),
    "digits.json": lambda: b"[" + b"1" * 4_000_000 + b"]",
    "lines.txt": lambda: b"\n" * 8_000_000,
    "cells.csv": lambda: b"," * 8_000_000,
    "quotes.csv": lambda: b'"' * 8_000_001,
    "metrics.jsonl": lambda: b"".join(b'{"step":%d,"a%d":1}\n' % (n, n) for n in range(99_000)),
}


@pytest.mark.parametrize("name", WORST)
def test_a_file_costs_a_look_no_more_than_its_limits(name, tmp_path):
    told = measured(tmp_path, name, WORST[name]())
    assert told["MiB"] * 1024 * 1024 <= program.MEMORY_BYTES
    assert told["cpu_s"] <= program.CPU_S + 1, "the kernel ends it at its limit"
    assert told["answer"].startswith("{") or told["status"], "an answer, or ended by the kernel"
    assert len(told["answer"]) <= asking.MOST_ANSWER_BYTES
