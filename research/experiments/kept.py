"""Answers of finished simulations, kept in a folder, so that an experiment that was cut off goes on where it was.

A file holds one task's answer. Its name is a fingerprint of the task (what is simulated, policy, knobs, seed) and of the
code that simulates, so that nothing is read again after either has changed. Public data are taken not to change.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from portal.pages.laboratory.run.parallel import Task, Tell

ROOT = Path(__file__).resolve().parents[2]
CODE = ("scheduler", "portal/pages/laboratory", "research")


@dataclass(frozen=True, slots=True)
class Kept:
    """A task's work that is done once: its answer is written to `path`, and read from there the next time."""

    work: Callable[[Tell], Any]
    path: Path

    def __call__(self, tell: Tell) -> Any:
        if self.path.exists():
            return pickle.loads(self.path.read_bytes())  # noqa: S301 - written below
        answer = self.work(tell)
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(pickle.dumps(answer))
        unfinished.replace(self.path)
        return answer


def kept_in(folder: Path, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks so that they keep their answers in `folder`. SimulationError when it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError("keep", f"{folder} cannot be made: {error.strerror}") from error
    return [replace(task, work=Kept(task.work, folder / _name(task))) for task in tasks]


def _name(task: Task) -> str:
    label = "-".join(task.label.split()).replace("/", "-")
    fingerprint = hashlib.sha256(_code() + pickle.dumps(task.work)).hexdigest()
    return f"{label}-{fingerprint[:16]}.pickle"


@cache
def _code() -> bytes:
    """Return a fingerprint of the code of simulator and scheduler."""
    found = hashlib.sha256()
    for path in sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.digest()
