"""Tries at the agent's start whether what is to set jobs apart holds on this machine: in processes of its own, never by name."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.controls.apart import live_apart
from workers.controls.cgroups import CONTROLLERS, group_make
from workers.parts.accounts import BASE
from workers.protocol.inventory import Wall, wall
from workers.system.landlock import LandlockError, Walls, landlock_version, seclude
from workers.system.view import View

if TYPE_CHECKING:
    from collections.abc import Callable


KEPT_OUT = "kept out"
_LIMITS = {"memory": "memory", "pids": "pids", "cpuset": "cores", "devices": "devices"}
_PROGRAM = f"""
import os, sys
work, secret, instrument = sys.argv[1:]
open(os.path.join(work, "own"), "w").close()
if not os.listdir(instrument):
    sys.exit("the instrument is not there")
try:
    open(secret).close()
    said = "a job could still read another's file"
except OSError:
    said = {KEPT_OUT!r}
os.write(1, said.encode())
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """The means to try with a job of no tenant. `seclude`: with Landlock's walls too."""

    directory: Path
    walls: Walls
    seclude: bool
    program: tuple[Path, ...]
    instrument: Path


def try_walls(walls: Walls, version: int, closed: Path) -> str:
    """Let a child process with walls try to open a closed directory; return "" when it cannot, else what is wrong."""

    def act() -> str:
        seclude(walls, version)
        os.close(os.open(closed, os.O_RDONLY | os.O_DIRECTORY))
        return "a process with walls could still open a closed directory"

    said = _in_a_child(lambda: _words(act))
    return "" if said == KEPT_OUT else said or "the process that had to try it ended at once"


def _words(act: Callable[[], str]) -> str:
    try:
        return act()
    except LandlockError as error:
        return f"the kernel refused: {error.strerror}"
    except PermissionError:
        return KEPT_OUT
    except OSError as error:
        return f"it could not be tried: {error}"


def try_apart(trial: Trial, *, with_view: bool) -> str:
    """Start the interpreter as a job of no tenant would be; return "" when all holds, else what does not, and the remedy."""
    trial.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    room = Path(tempfile.mkdtemp(prefix=".trial-", dir=trial.directory)).resolve()
    try:
        if not with_view:
            _open_the_way(trial)
        room.chmod(0o711)
        (room / "secret").write_text("")
        (room / "secret").chmod(0o600)
        work = room / "work"
        work.mkdir(mode=0o700)
        (work / "tmp").mkdir()
        for path in (work, work / "tmp"):
            os.chown(path, BASE, BASE)
        said = _in_a_child(lambda: _apart(trial, work, with_view=with_view))
        return "" if said == KEPT_OUT else _remedy(said or "the process that had to try it ended at once")
    except OSError as error:
        return f"it could not be tried: {error}"
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _open_the_way(trial: Trial) -> None:
    """Let accounts pass through the agent's directories to their own, without seeing what else is there."""
    for path in (
        trial.directory,
        trial.directory / "jobs",
        *trial.walls.closed,
        *(c.parent for c in trial.walls.closed[1:]),
    ):
        if path.is_relative_to(trial.directory) and path.is_dir():
            path.chmod(0o711)


def _apart(trial: Trial, work: Path, *, with_view: bool) -> str:
    closed = tuple(path for path in trial.walls.closed if path.is_dir())
    view = View(closed, trial.program, (work,), work / "tmp")
    walls = trial.walls.behind_view(work) if with_view else trial.walls.with_own(work)
    launch: dict[str, Any] = {
        "account": {"uid": BASE, "gid": BASE, "name": str(BASE)},
        "view": view.to_json() if with_view else None,
        "walls": walls.to_json() if trial.seclude else None,
        "landlock": landlock_version(),
    }
    step = ""
    try:
        for doing in live_apart(launch):
            step = doing
        step = f"interpreter {sys.executable}"
        os.chdir(work)
        arguments = ["-I", "-S", "-c", _PROGRAM, str(work), str(work.parent / "secret"), str(trial.instrument)]
        os.execve(sys.executable, [sys.executable, *arguments], {})  # noqa: S606 - our own interpreter
    except OSError as error:
        return f"{step}: {error}"


def _remedy(said: str) -> str:
    if "interpreter" in said or "Traceback" in said:
        last = said.strip().splitlines()[-1]
        return (
            f"jobs of an account of their own cannot reach Berth's Python or their directory ({last}); "
            "install Berth and its --dir where every account may go, or let the agent make mount namespaces"
        )
    return said


def try_limits() -> list[Wall]:
    """Make a control group, and say of each limit whether the kernel would hold it, and by which version."""
    group = group_make(f"trial-{os.getpid()}", CONTROLLERS)
    group.remove()
    why = "no control group of cgroup v1 or v2 with it can be made here (root, or delegation in the unit, is needed)"
    walls: list[Wall] = []
    for controller, name in _LIMITS.items():
        home = group.home(controller)
        walls.append(wall(name, f"cgroup{home.version}") if home else wall(name, "", why))
    return walls


def _in_a_child(act: Callable[[], str]) -> str:
    """Return the text of `act` in a child process, or the output of the program that the child becomes."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for standard in (1, 2):
                os.dup2(writer, standard)
            os.write(writer, act().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return said
