"""Commands for a node whose agent shall not run: let its jobs run on for some hours, or end them all."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from workers.agent.hold import agent_end, hold_agent
from workers.engines.process import ProcessEngine
from workers.networks.networks import rules_remove
from workers.parts.journal import Journal
from workers.system.files import write_json
from workers.system.procs import boot_id, boottime

if TYPE_CHECKING:
    from pathlib import Path

    from workers.parts.part import Part

# After the grace a shim needs up to this long to see that all processes are dead, and to write its result.
_PATIENCE_S = 15.0


def _answer(**values: float) -> int:
    sys.stdout.write(json.dumps(values) + "\n")
    return 0


def keep_jobs(directory: Path, hours: float) -> int:
    """End the agent. Every running job may run on for this long without a word from the portal."""
    agent_end(directory)
    with hold_agent(directory):
        journal, engine = Journal(directory), ProcessEngine()
        alive = [p for p in journal.parts.values() if p.live and engine.life(journal.directory(p)) == "alive"]
        for part in alive:
            path = journal.directory(part) / "maintenance.json"
            write_json(path, {"until": boottime() + hours * 3600, "boot_id": boot_id()})
    return _answer(kept=len(alive), hours=hours)


def stop_all(directory: Path, grace_s: float) -> int:
    """End the agent and all its jobs; return when none of their processes lives. The next agent reports the ends."""
    agent_end(directory)
    with hold_agent(directory):
        journal, engine = Journal(directory), ProcessEngine()
        live = [p for p in journal.parts.values() if p.live]
        stopped = sum(_stop(journal, engine, part, grace_s) for part in live)
        end = time.monotonic() + grace_s + _PATIENCE_S
        while any(engine.life(journal.directory(p)) == "alive" for p in live):
            if time.monotonic() > end:
                sys.stderr.write("workers.agent: some processes of jobs do not end, even after SIGKILL\n")
                return 1
            time.sleep(0.05)
        for part in live:
            if engine.life(journal.directory(part)) == "lost":
                engine.purge(journal.directory(part), mark=part.mark)
        rules_remove(directory / "parts")
    return _answer(stopped=stopped)


def _stop(journal: Journal, engine: ProcessEngine, part: Part, grace_s: float) -> bool:
    """Stop the part; return whether it ran. A part that has not started can no longer start."""
    path = journal.directory(part)
    if engine.life(path) == "absent" and engine.void(path):
        return False
    engine.stop(path, grace_s=grace_s, detail="the node was shut down")
    return engine.life(path) == "alive"
