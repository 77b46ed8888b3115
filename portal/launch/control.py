"""`./berth down` and `./berth status`: they speak to a supervisor in another process."""

import json
import os
import signal
import sys
import time
from typing import Any

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, read_json, write_json
from portal.launch import health, nodes
from portal.launch.processes import identity
from portal.launch.processes.identity import SupervisorLock, supervisor_state

DOWN_LIMIT_S = 120.0
PATIENCE_S = 7.0
"""For `/healthz`, which answers within five seconds."""


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is the command's output


def down(layout: Layout, *, keep_jobs: bool) -> int:
    """Ask the supervisor to stop, and wait for it. Without one, end what a killed one left. Calling it twice does no harm."""
    if not layout.run.is_dir():
        say(f"Berth does not run on {layout.root}, and never has.")
        return 0
    state = supervisor_state(layout)
    if state is None:
        return _down_leftovers(layout, keep_jobs=keep_jobs)
    write_json(layout.stop_request, {"keep_jobs": keep_jobs})
    started = identity.Identity.from_dict(state["supervisor"])
    os.kill(started.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_LIMIT_S
    while identity.is_alive(started):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"The supervisor (pid {started.pid}) did not stop within {DOWN_LIMIT_S:.0f} s.",
                f"See {layout.logs / 'supervisor.log'}. To force its end: `kill -9 {started.pid}`, then `./berth down` again.",
            )
        time.sleep(0.1)
    say("Berth is stopped. Its running jobs run on." if keep_jobs else "Berth and its jobs are stopped.")
    return 0


def _down_leftovers(layout: Layout, *, keep_jobs: bool) -> int:
    lock = SupervisorLock(layout.lock)
    if not lock.acquire():
        raise LaunchError("Berth is starting or stopping at this moment.", "Wait a little and run the command again.")
    with lock:
        found = identity.leftovers(layout)
        crashed = layout.state.exists()
        if crashed and keep_jobs:
            nodes.leases_keep(layout)
        identity.end(found)
        if crashed:
            (nodes.jobs_keep if keep_jobs else nodes.jobs_stop)(layout)
            layout.state.unlink()
    if found or crashed:
        say(f"The supervisor had been killed. Ended {len(found)} processes that it left.")
    else:
        say(f"Berth does not run on {layout.root}.")
    return 0


def status_of(layout: Layout) -> dict[str, Any]:
    """Return all that `status` shows. `state` is running, unhealthy, starting, crashed or stopped."""
    state = supervisor_state(layout)
    mode = read_json(layout.mode) or {}
    if state is None:
        crashed = bool(read_json(layout.state)) and bool(identity.leftovers(layout))
        return {"state": "crashed" if crashed else "stopped", "data": str(layout.root), "url": mode.get("base_url")}
    if "port" not in state:
        return {"state": "starting", "data": str(layout.root), "url": None, "processes": state["children"]}
    asked = health.health_ask(host=state["host"], port=state["port"], tls=state["tls"], limit_s=PATIENCE_S)
    return {
        "state": "running" if asked.good else "unhealthy",
        "data": str(layout.root),
        "url": state["url"],
        "demo": state["demo"],
        "supervisor": state["supervisor"]["pid"],
        "processes": state["children"],
        "health": {name: value for name, value in asked.facts.items() if name != "problems"},
        "problems": asked.facts.get("problems", []),
        "problem": None if asked.good else asked.words,
    }


def status(layout: Layout, *, as_json: bool) -> int:
    """Print the status. Return 0 when all is well, 3 when Berth does not run (as service scripts do), else 1."""
    facts = status_of(layout)
    if as_json:
        json.dump(facts, sys.stdout, indent=2)
        say("")
    else:
        _show(facts)
    return {"running": 0, "stopped": 3, "crashed": 3}.get(facts["state"], 1)


def _show(facts: dict[str, Any]) -> None:
    problem = ":" if facts.get("problems") else f": {facts.get('problem')}"
    sentences = {
        "running": f"Berth runs at {facts['url']}",
        "unhealthy": f"Berth runs at {facts['url']}, but it has problems{problem}",
        "starting": "Berth is starting.",
        "crashed": "Berth's supervisor was killed. Start it again with `./berth up`; it takes over the jobs that still run.",
        "stopped": "Berth does not run. Start it with `./berth up`.",
    }
    say(sentences[facts["state"]])
    say(f"data directory {facts['data']}")
    for problem in facts.get("problems", []):
        say(f"problem: {problem}")
    processes = facts.get("processes", {})
    if not processes:
        return
    width = max(len(name) for name in processes)
    say(f"\n{'process':{width}}  role    pid      restarts  hangs  last end")
    for name, each in processes.items():
        last = "-" if each["last_exit"] is None else str(each["last_exit"])
        say(
            f"{name:{width}}  {each['role']:6}  {each['pid'] or 'down':<7}  {each['restarts']:<8}  {each['hangs']:<5}  {last}"
        )
    for line in health_lines(facts.get("health", {})):
        say(line)


def health_lines(figures: dict[str, Any]) -> list[str]:
    """Return the answer of `/healthz` in words; a figure without words stays as it came."""
    told = dict(figures)
    lines = [f"{name}: {told.pop(name)}" for name in ("state", "database", "broker") if name in told]
    disk = told.pop("disk", None)
    if disk:
        lines.append(f"disk: {disk['free_mib'] / 1024:.1f} of {disk['total_mib'] / 1024:.1f} GiB free")
    for name, what in (("beat_age_s", "the clock's last task"), ("last_planning_age_s", "the last planning")):
        if name in told:
            age_s = told.pop(name)
            lines.append(f"{what}: " + ("none yet" if age_s is None else f"{age_s:g} s ago"))
    if "nodes" in told and "nodes_registered" in told:
        lines.append(f"nodes: {told.pop('nodes')} of {told.pop('nodes_registered')} take jobs")
        lines[-1] += f", {told.pop('nodes_in_contact')} are in contact" if "nodes_in_contact" in told else ""
    return lines + [f"{name}: {json.dumps(value)}" for name, value in told.items()]
