"""Makes a job's software ready before its command: `python -I -S build.py PLAN_FILE`. Exit code 0: it is.

It runs as the job does: the same account, walls, limits and log, for the packages that it installs run code of strangers. It
imports only the standard library. The job can spoil its output: the agent reads it without trust.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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
    """It cannot be made ready. The text says why, for the job's page; `lasting`: another job would fail the same way."""

    def __init__(self, why: str, *, lasting: bool = True) -> None:
        super().__init__(why)
        self.lasting = lasting


INDEXES = {"PIP_INDEX_URL": "--index-url", "PIP_EXTRA_INDEX_URL": "--extra-index-url"}
REGISTRY = ("APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD")
"""Variables in which a build finds secrets of the tenant, if the job names some for it."""
NOT_LET_IN = (
    "401 Error",
    "403 Error",
    "401 Client Error",
    "403 Client Error",
    "HTTP error 401",
    "HTTP error 403",
    "client error (401",
    "client error (403",
    "authentication required",
)
NOT_FOUND = ("No matching distribution found", "not found in the package registry")
"""pip says no more of an index that does not let it in."""


SHORTEST = 4
"""Shortest word that is left out of the log: a shorter one occurs everywhere."""


@dataclass
class Access:
    """A build's access to an index, only in memory: options of the installer, its variables, and words that no log may show."""

    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)

    def mask(self, text: str) -> str:
        for each in self.hidden:
            text = text.replace(each, "***")
        return text


def access_take(variables: MutableMapping[str, str]) -> Access:
    """Take the secrets out of the variables. Raises BuildError for an index that is no URL; it repeats nothing of it.

    An index's name and password go by netrc, not by its URL: pip hands URLs on to programs as arguments, for all to read.
    """
    found = Access()
    lines: list[str] = []
    logins: dict[str, tuple[str, str]] = {}
    for name, option in INDEXES.items():
        for url in variables.pop(name, "").split():
            line, host, login = _index(name, option, url)
            found.hidden += [url, login[1] or login[0], quote(login[1] or login[0], safe="")]
            lines.append(line)
            if any(login) and logins.setdefault(host, login) != login:
                raise BuildError(f"The secrets of its indexes hold two logins for {host}; give one.", lasting=False)
    found.environment = {name: variables.pop(name) for name in REGISTRY if name in variables}
    found.hidden = sorted(
        {each for each in [*found.hidden, *found.environment.values()] if len(each) >= SHORTEST}, key=len, reverse=True
    )
    if lines:
        found.options = ["-r", _in_memory("\n".join(lines))]
    if logins:
        told = (f'machine {host} login "{user}" password "{word}"' for host, (user, word) in logins.items())
        found.environment["NETRC"] = _in_memory("\n".join(told))
    return found


def _index(name: str, option: str, url: str) -> tuple[str, str, tuple[str, str]]:
    """Return the option without name and password, the host, and these two."""
    try:
        parts = urlsplit(url)
        host, login = parts.hostname or "", (unquote(parts.username or ""), unquote(parts.password or ""))
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"https", "http"} or not url.isprintable():
        raise BuildError(
            f"The secret of {name} is no URL of an index, as https://name:password@host/simple.", lasting=False
        )
    if any(char.isspace() or char in '"\\' for word in login for char in word):
        raise BuildError(f"The secret of {name} holds a space, quote or backslash in name or password.", lasting=False)
    return f"{option} {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}", host, login


def _in_memory(text: str) -> str:
    """Return the name of a file that lies in memory, and goes with this process."""
    file = os.memfd_create("build", 0)
    os.write(file, f"{text}\n".encode())
    return f"/proc/{os.getpid()}/fd/{file}"


def say(sentence: str) -> None:
    print(_MARK, sentence, flush=True)  # noqa: T201 - standard output is the log


def main(plan_file: Path) -> int:
    """Make ready what the plan names. The reason of a failure goes into the log and into the plan's file `why`."""
    plan = json.loads(plan_file.read_text())
    try:
        if plan["kind"] == "prefix":
            prefix_check(plan)
        else:
            requirements_ready(plan, access_take(os.environ))
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


def requirements_ready(plan: dict[str, Any], access: Access) -> None:
    """Build the environment unless it is there. Raises BuildError."""
    entry = Path(plan["entry"])
    with lock(entry):
        if (entry / "ready.json").exists():
            say(f"Using the environment {entry.name}, which this node has built before.")
            return
        failed_check(entry, plan["again_s"])
        began = time.monotonic()
        say(plan["doing"])
        try:
            _build(entry, plan, access)
        except BuildError as error:
            if error.lasting:
                _write(entry / "failed.json", {"at": time.time(), "why": str(error)})
            raise
        took = round(time.monotonic() - began, 1)
        _write(entry / "ready.json", {"at": time.time(), "seconds": took})
        say(f"Built in {took} s.")


@contextlib.contextmanager
def lock(entry: Path) -> Any:
    """Hold the environment's lock. Says so when another job has it."""
    with (entry / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another job is building this environment; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def failed_check(entry: Path, again_s: float) -> None:
    """Raise BuildError when a build failed so lately that another try would fail too."""
    try:
        failed = json.loads((entry / "failed.json").read_text())
        age_s, why = time.time() - failed["at"], failed["why"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if 0 <= age_s < again_s:
        again = f"It is tried again in {max(1, round((again_s - age_s) / 60))} min; other requirements at once."
        detail = f"This environment could not be built here {round(age_s / 60)} min ago: {why.rstrip('.')}. {again}"
        raise BuildError(detail, lasting=False)


def _build(entry: Path, plan: dict[str, Any], access: Access) -> None:
    """Make the environment or image; the remains of a killed build are removed first."""
    shutil.rmtree(entry / "venv", ignore_errors=True)
    for leftover in ("ready.json", "failed.json"):
        (entry / leftover).unlink(missing_ok=True)
    for number, step in enumerate(plan["steps"], start=1):
        is_last = number == len(plan["steps"])
        _run([*step, *access.options] if is_last else step, plan, access)
    if not Path(plan["made"]).exists():
        raise BuildError(f"{plan['installer']} ended well, but there is no {Path(plan['made']).name}.")


def _run(step: list[str], plan: dict[str, Any], access: Access) -> None:
    """Run one command, its output into the log. Raises BuildError with its last complaint and the remedy."""
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    environment = {**os.environ, **plan["environment"], **access.environment}
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
        for raw in child.stdout:
            line = access.mask(raw)
            kept.append(line.rstrip())
            print(line, end="", flush=True)  # noqa: T201 - as say()
    if child.returncode:
        raise _failure(plan, child.returncode, kept, with_login=bool(access.hidden))


def _failure(plan: dict[str, Any], code: int, kept: deque[str], *, with_login: bool) -> BuildError:
    told = "\n".join(kept)
    if "No space left on device" in told or "Disk quota exceeded" in told:
        return BuildError(FULL_REMEDY, lasting=False)
    if any(sign in told for sign in (*NOT_LET_IN, *(NOT_FOUND if with_login else ()))):
        found = (
            "did not find a package, or was not let in" if any(sign in told for sign in NOT_FOUND) else "was not let in"
        )
        names = ", ".join((*INDEXES, *REGISTRY))
        remedy = f"Look at the job's secrets for its build ({names}), and at the requirements"
        return BuildError(f"{plan['installer']} {found}. {remedy}.", lasting=False)
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
