"""One short job that looks at a compute node: which Python it has, whether Landlock, and whether the folder is the same one."""

from __future__ import annotations

import secrets
import shlex
import time
from typing import TYPE_CHECKING

from workers.bridge.texts import words_read
from workers.protocol.engine import Away, Order, RefusedError, UnknownError
from workers.system.landlock import LEAST_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workers.bridge.slurm import SlurmEngine

PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
PATIENCE_S, LOOK_S = 60.0, 0.5
ASKS_LANDLOCK = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))"
SCRIPT = """#!/bin/sh
PATH="$PATH:/usr/local/bin:/usr/bin:/bin"
for each in {pythons}; do
    if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then python=$(command -v "$each"); break; fi
done
landlock=$("${{python:-python3}}" -c {asks_landlock} || echo unknown)
echo "node=$(uname -n) python=$python landlock=$landlock" >{path}.new && mv {path}.new {path}
"""


class TrialError(Exception):
    """Nothing was learnt; `waits`: Slurm has not begun the job, which is nobody's fault."""

    def __init__(self, text: str, *, waits: bool = False) -> None:
        super().__init__(text)
        self.waits = waits


def node_try(engine: SlurmEngine, folder: str, *, patience_s: float = PATIENCE_S) -> dict[str, str]:
    """Return the words node, python ("": none that is new enough) and landlock of a compute node. Raises TrialError."""
    name = f"berth-check-{secrets.token_hex(4)}"
    path = f"{folder}/{name}"
    asks = Order(name=name, again=False, gpus=0, gpu_type="", cores=1, memory_mib=100, limit_s=60, join_token="")
    try:
        ticket = engine.submit(asks, script_for(path), whole=False)
        _wait(engine, ticket, name, time.monotonic() + patience_s)
        done = engine.runner.run("cat", path)
    except (RefusedError, UnknownError) as error:
        raise TrialError(f"the job was not taken: {error}") from error
    finally:
        engine.stop("", name)
        engine.runner.run("rm", "-f", path)
    if done.code != 0:
        raise TrialError(f"the job ended and left nothing in {folder}: compute nodes do not share this folder")
    return words_read(done.out)


def script_for(path: str, pythons: Sequence[str] = PYTHONS) -> str:
    """Return the job's script. A Python counts if it runs: a name on PATH may be a launcher for a version that is not there."""
    landlock, quoted = shlex.quote(ASKS_LANDLOCK), shlex.quote(path)
    return SCRIPT.format(pythons=shlex.join(pythons), asks_landlock=landlock, path=quoted)


def _wait(engine: SlurmEngine, ticket: str, name: str, until: float) -> None:
    state = reason = ""
    while state != "ended":
        found = engine.look([name])
        if isinstance(found, Away):
            raise TrialError(f"Slurm went away: {found.reason}")
        if name in found.orders:
            state, reason = found.orders[name]["state"], found.orders[name]["reason"]
        if state != "ended" and time.monotonic() > until:
            raise TrialError(f"job {ticket} is {state or 'not listed'}: {reason}", waits=state == "pending")
        time.sleep(LOOK_S)


def has_landlock(version: str) -> bool:
    """Return whether its version is new enough for walls between tenants."""
    return version.isdecimal() and int(version) >= LEAST_VERSION
