"""`python -m workers.nursery DIR NAME=MODULE ...`: loads once what agents work with, and becomes each of several agents.

An agent's start is nearly all imports. When all is loaded this process says so, and reads one line of JSON: for each
agent its name, its words (the module and its arguments), its own variables, and its open files. Each is a fork
in a session of its own. This process prints their pids and ends, so the supervisor, a subreaper meanwhile, becomes their
parent (docs/decisions/0221). DIR, the directory of all their directories, tells them from the agents of another Berth: forks
keep this command line.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import threading
from typing import Any

from workers.agent import alive
from workers.agent.program import main as agent_main
from workers.system.procs import hide

LATER = "httpcore2 anyio._backends._asyncio".split()
"""Modules that an agent's first request to the portal would load."""
_PR_SET_NAME = 15


def load() -> None:
    """Load the rest of the agents' modules. This opens nothing and starts no thread."""
    for name in LATER:
        importlib.import_module(name)
    gc.freeze()  # else the first pass of each agent's garbage collector would write to all that they share


def _become(agent: dict[str, Any], others: set[int]) -> int:
    """Be the agent; return its exit code."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, f"berth-{agent['name']}".encode()[:15], 0, 0, 0)
    silence = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((silence, agent["output"], agent["output"])):
        os.dup2(file, number)
    for unneeded in {silence, *others} - {agent["signs"]}:
        os.close(unneeded)
    os.environ.update(agent["environment"])
    if agent["signs"] is not None:
        os.environ[alive.VARIABLE] = str(agent["signs"])
    sys.argv[:] = agent["words"]
    return agent_main(agent["words"][1:])


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Load, say so, become whom the line names, and tell their pids. With a thread that a fork would lack, become nobody."""
    hide()
    load()
    if threading.active_count() > 1:
        return 1
    _tell("loaded")
    agents = json.loads(sys.stdin.readline() or "[]")
    files = {agent[name] for agent in agents for name in ("output", "signs")} - {None}
    born = {}
    for agent in agents:
        try:
            pid = os.fork()
        except OSError:  # no room for a process: the supervisor starts it later
            continue
        if pid == 0:
            return _become(agent, files)
        born[agent["name"]] = pid
    _tell(json.dumps(born))
    os._exit(0)  # taking all apart would write to memory that the agents share


if __name__ == "__main__":
    sys.exit(main())
