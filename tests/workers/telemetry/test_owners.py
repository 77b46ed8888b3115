"""Whose a process on a GPU is: by its parents alone, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from workers.system.procs import Stat, stat
from workers.telemetry.owners import OUTSIDE, Shim, name_of, owner_of

FAMILY = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(__import__(\"os\").getpid(), flush=True); input()'])"


def shim_of(pid, attempt):
    return Shim(pid, stat(pid).start_ticks, attempt)


@pytest.fixture
def tree():
    """A process with a child, as a shim with its job: (pid of the first, pid of the second)."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        yield first.pid, int(first.stdout.readline())
        first.communicate(b"\n")


def test_a_descendant_of_a_shim_is_its_part_s_and_another_is_outside(tree):
    first, second = tree
    shims = {first: shim_of(first, "a")}
    assert owner_of(second, shims) == owner_of(first, shims) == "a"
    assert owner_of(os.getpid(), shims) == OUTSIDE
    assert owner_of(second, {}) == OUTSIDE


def test_a_pid_that_was_given_to_another_process_is_no_shim(tree):
    first, second = tree
    assert owner_of(second, {first: Shim(first, stat(first).start_ticks - 1, "a")}) == OUTSIDE


def test_a_process_that_has_ended_is_nobody_s_and_has_no_name(tree):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE).stdout
    assert owner_of(int(gone), {}) is None
    assert name_of(int(gone)) == ""


def test_a_circle_of_parents_ends():
    """Processes change while they are looked at."""
    circle = {1001: 1002, 1002: 1001}
    assert owner_of(1001, {}, lambda pid: Stat(pid, circle[pid], 0, "R", 1, 0.0, 0.0, 0.0)) == OUTSIDE


def test_a_name_is_printable(tree):
    assert name_of(tree[1]).startswith("python")
