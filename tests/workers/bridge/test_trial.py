"""The script that looks at a compute node, run by a real sh."""

import subprocess
import sys

from workers.bridge.texts import words_read
from workers.bridge.trial import has_landlock, script_for


def looked(tmp_path, *pythons):
    path = tmp_path / "it's here"
    done = subprocess.run(
        ["sh", "-s"], input=script_for(str(path), pythons), text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return words_read(path.read_text())


def program(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_does_not_run_is_none(tmp_path):
    launcher = program(tmp_path, "python3.14", "echo 'python3.14: command not found' >&2; exit 127")
    found = looked(tmp_path, "no-such-python", launcher, sys.executable)
    assert found["python"] == sys.executable
    assert found["node"]
    assert found["landlock"].lstrip("-").isdecimal()


def test_a_node_without_a_python_that_is_new_enough(tmp_path):
    old = program(tmp_path, "python3", "exit 1")
    assert looked(tmp_path, "no-such-python", old)["python"] == ""


def test_versions_of_landlock():
    assert [has_landlock(each) for each in ("unknown", "-1", "1", "2", "7")] == [False, False, False, True, True]
