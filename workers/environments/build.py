"""Makes a job's software ready before its command: `python -I -S build.py PLAN_FILE`. Exit code 0: it is.

It runs as the job does: the same account, walls, limits and log, for the packages that it installs run code of strangers. It
imports the standard library alone. What it writes is the job's to spoil: the agent reads it without trust.

An environment lies in a directory of its own, named by a hash of all that decides what is in it. `lock` lets one process at a
time build it, and the kernel drops it when that dies. `ready.json` is written last; without it the next job begins anew.
`failed.json` tells the next jobs for a while why it cannot be built, so that an array does not try it a thousand times.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

AWAY = (
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "dns error",
    "error sending request",
    "tcp connect error",
    "Connection refused",
)
AWAY_REMEDY = (
    "This node could not reach the package index. Its operator can name one that it reaches, or a directory of wheels: "
    "the agent's --environments-index and --environments-wheels."
)
FULL_REMEDY = "The node's disk is full: ask its operator."
KEPT_LINES = 60
_MARK = "[environment]"


class BuildError(Exception):
    """It cannot be made ready. The text says why, for the job's page; `lasting`: another job would fail alike."""

    def __init__(self, why: str, *, lasting: bool = True) -> None:
        super().__init__(why)
        self.lasting = lasting


def say(sentence: str) -> None:
    """Write a line into the job's log."""
    print(_MARK, sentence, flush=True)  # noqa: T201 - standard output is the log


def main(plan_file: Path) -> int:
    """Make ready what the plan names. The reason of a failure goes into the log and into the plan's file `why`."""
    plan = json.loads(plan_file.read_text())
    try:
        {"prefix": prefix_check, "requirements": requirements_ready}[plan["kind"]](plan)
    except BuildError as error:
        why = str(error)
    except OSError as error:
        why = f"{error}. {FULL_REMEDY}" if error.errno in {28, 122} else str(error)
    else:
        return 0
    say(f"Failed: {why}")
    with contextlib.suppress(OSError):  # the log has it as well
        Path(plan["why"]).write_text(why)
    return 1


def prefix_check(plan: dict[str, Any]) -> None:
    """Look whether there is a Python in the prefix, as the job will see it. Raises BuildError."""
    python = Path(plan["prefix"]) / "bin" / "python"
    try:
        done = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - as asked
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it ends with code {error.returncode}"
        detail = f"{plan['name']} cannot be used on this node: {python} does not run ({why})."
        raise BuildError(f"{detail} Give the directory of a virtual or conda environment.") from error
    say(f"{plan['name']}: {(done.stdout or done.stderr).strip()}.")


def requirements_ready(plan: dict[str, Any]) -> None:
    """Build the environment unless it is there. Raises BuildError."""
    entry = Path(plan["entry"])
    with locked(entry):
        if (entry / "ready.json").exists():
            say(f"Using the environment {entry.name}, which this node has built before.")
            return
        failed_check(entry, plan["again_s"])
        began = time.monotonic()
        say(plan["doing"])
        try:
            _build(entry, plan)
        except BuildError as error:
            if error.lasting:
                _write(entry / "failed.json", {"at": time.time(), "why": str(error)})
            raise
        took = round(time.monotonic() - began, 1)
        _write(entry / "ready.json", {"at": time.time(), "seconds": took})
        say(f"Built in {took} s.")


@contextlib.contextmanager
def locked(entry: Path) -> Any:
    """Hold the environment's lock. Says so when another job has it."""
    with (entry / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another job is building this environment; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def failed_check(entry: Path, again_s: float) -> None:
    """Raise BuildError when a build failed so lately that another try would fail alike."""
    try:
        failed = json.loads((entry / "failed.json").read_text())
        age_s, why = time.time() - failed["at"], failed["why"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if 0 <= age_s < again_s:
        again = f"It is tried again in {max(1, round((again_s - age_s) / 60))} min; other requirements at once."
        detail = f"This environment could not be built here {round(age_s / 60)} min ago: {why.rstrip('.')}. {again}"
        raise BuildError(detail, lasting=False)


def _build(entry: Path, plan: dict[str, Any]) -> None:
    """Make the environment, or the image, anew: what a killed build left is removed first."""
    shutil.rmtree(entry / "venv", ignore_errors=True)
    for leftover in ("ready.json", "failed.json"):
        (entry / leftover).unlink(missing_ok=True)
    for step in plan["steps"]:
        _run(step, plan)
    if not Path(plan["made"]).exists():
        raise BuildError(f"{plan['installer']} ended well, but there is no {Path(plan['made']).name}.")


def _run(step: list[str], plan: dict[str, Any]) -> None:
    """Run one command, its output into the log. Raises BuildError with its last complaint and the remedy."""
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    environment = {**os.environ, **plan["environment"]}
    with subprocess.Popen(  # noqa: S603 - the plan is the agent's
        step,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            kept.append(line.rstrip())
            print(line, end="", flush=True)  # noqa: T201 - as say()
    if child.returncode:
        raise _failure(plan, child.returncode, kept)


def _failure(plan: dict[str, Any], code: int, kept: deque[str]) -> BuildError:
    told = "\n".join(kept)
    if "No space left on device" in told or "Disk quota exceeded" in told:
        return BuildError(FULL_REMEDY, lasting=False)
    if any(sign in told for sign in AWAY):
        return BuildError(plan["away"])
    complaint = next((line for line in reversed(kept) if "error" in line.lower()), kept[-1] if kept else "")
    return BuildError(f"{plan['installer']} ended with code {code}: {complaint.strip()[:200]}")


def _write(path: Path, value: dict[str, Any]) -> None:
    """Replace the file with the whole value, on disk before it has its name."""
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
