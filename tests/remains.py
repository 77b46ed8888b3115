"""Processes in the directory of a part, of a node or of a Berth: found by name, by mark, or by an open file."""

import contextlib
import os
import signal
import time
from pathlib import Path

from workers.controls.cgroups import PREFIX, owner_of
from workers.controls.killing import MARKER
from workers.networks.networks import rules_remove
from workers.system.files import BrokenFileError, read_record


def _marks(directory: Path) -> set[str]:
    """The marks of all parts beneath; a hostile job's forged records are passed over."""
    found = set()
    for path in (at for each in ("", "parts/*/", "nodes/*/parts/*/") for at in directory.glob(f"{each}launch.json")):
        try:
            found.add((read_record(path, mark=str) or {}).get("mark"))
        except BrokenFileError:
            continue
    return found - {None}


def _looked_at(entry: Path) -> tuple[bytes, Path]:
    """Environment and standard output; empty for agents and shims, which hide them from others of the account."""
    try:
        return (entry / "environ").read_bytes(), (entry / "fd/1").readlink()
    except OSError:
        return b"", Path()


def processes_of(directory: Path) -> list[tuple[int, str]]:
    """(pid, command line) of every process that names this directory, was marked with it or writes into it."""
    found = []
    marks = {f"{MARKER}={mark}".encode() for mark in _marks(directory)}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:  # gone
                continue
            environment, output = _looked_at(entry)
            marked = not marks.isdisjoint(environment.split(b"\0")) or str(directory).encode() in arguments
            if marked or output.is_relative_to(directory):
                found.append((int(entry.name), arguments.replace(b"\0", b" ").decode()))
    return found


def kill_all_of(directory: Path, *, within_s: float = 60.0) -> None:
    """Kill all that runs there, again and again until nothing does: a shell may begin one more while the others are killed.

    Then remove what else its agents and shims leave on the machine when they are killed.
    """
    end = time.monotonic() + within_s
    while left := processes_of(directory):
        if time.monotonic() > end:
            raise AssertionError(f"cannot be killed: {left}")
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    groups_remove(directory)


def groups_remove(directory: Path) -> None:
    """Remove the control groups and rules of a node's parts, or of a Berth's."""
    for parts in (directory / "parts", *directory.glob("nodes/*/parts")):
        rules_remove(parts)
        owner = f".{owner_of(parts)}"
        for at, names, _ in os.walk("/sys/fs/cgroup"):  # passes over groups that others remove meanwhile
            for name in names:
                if name.startswith(PREFIX) and name.endswith(owner):
                    _group_remove(Path(at, name))


def _group_remove(group: Path, *, within_s: float = 20.0) -> None:
    """Remove it as soon as its last process, which is on its way out, has left it."""
    end = time.monotonic() + within_s
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
