"""Nodes of this machine: whether the portal's machine is one, and their jobs when Berth stops. The agent's program is asked.

The machine is a node if the kernel keeps jobs out of the data directory. Otherwise a job, which runs under the same account,
could read the signing key, the nodes' tokens and the database, and so become the operator. This is not asked for the demo:
its tenants trust each other.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch.programs import AGENT_PREFIX, REGISTERED_FILE, agent_environment, portal_environment

KEEP_HOURS = 24
STOP_GRACE_S = 10
STOP_LIMIT_S = 60.0
LEASES_LIMIT_S = 60.0


def node_directories(layout: Layout) -> list[Path]:
    return sorted(path for path in layout.nodes.glob("*") if path.is_dir())


def jobs_stop(layout: Layout) -> None:
    """End every job of every node here: SIGTERM, and SIGKILL after a grace."""
    _each(layout, ["--stop-all", "--grace", str(STOP_GRACE_S)])


def leases_keep(layout: Layout) -> None:
    """Extend the leases in the database. Else the next `up` would find them ended, and run the jobs twice.

    Call it before `jobs_keep`, so that no shim's lease is ever longer than the database's.
    """
    mode = read_json(layout.mode) or {}
    done = subprocess.run(  # noqa: S603 - our own argv, no shell
        [sys.executable, "-m", "portal.launch.leases", str(KEEP_HOURS)],
        cwd=SOURCE,
        env=portal_environment(layout, redis_url=mode.get("redis_url", ""), demo=bool(mode.get("demo"))),
        capture_output=True,
        text=True,
        timeout=LEASES_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LaunchError(
            f"The leases of the running jobs could not be extended ({last}).",
            "The jobs run on until their present leases end. Start Berth again before that with `./berth up`.",
        )


def jobs_keep(layout: Layout, *, hours: int = KEEP_HOURS) -> None:
    """Give each shim a maintenance lease, so that its job runs on while Berth is stopped."""
    _each(layout, ["--keep-jobs", str(hours)])


def _each(layout: Layout, flags: list[str]) -> None:
    """Call the agent's program for all nodes at once, and wait. Raises LaunchError that names the nodes that failed."""
    started = {
        directory.name: subprocess.Popen(  # noqa: S603 - our own argv, no shell
            [sys.executable, "-m", "workers.agent", "--dir", str(directory), *flags],
            cwd=SOURCE,
            env=agent_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for directory in node_directories(layout)
    }
    failed = [f"{name} ({why})" for name, process in started.items() if (why := _failure(process))]
    if failed:
        raise LaunchError(
            f"Berth could not reach the jobs of these nodes: {', '.join(failed)}.",
            "The jobs may still run. Look for them with `ps`, or start Berth again with `./berth up`.",
        )


def _failure(process: subprocess.Popen[str]) -> str:
    """Wait for one agent's command; return why it failed, or "" when it worked."""
    try:
        output, _ = process.communicate(timeout=STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"took over {STOP_LIMIT_S:.0f} s"
    if not process.returncode:
        return ""
    return (output.strip().splitlines() or ["it said nothing"])[-1]


CHECK_LIMIT_S = 30.0
NO_USE = 2
"""An agent that would end in the same way at each start."""


@dataclass(frozen=True)
class OwnNode:
    """`wanted`: whether this machine becomes a node. `words`: what to tell the operator, empty when all is normal."""

    wanted: bool
    words: str = ""


def own_node(layout: Layout, *, with_node: bool) -> OwnNode:
    """Decide, and say why. A machine that is a node already stays one, because jobs may run on it."""
    isolation = isolation_ask(layout)
    if isolation["files"]:
        return OwnNode(wanted=True)
    open_words = f"the kernel does not keep jobs on this machine out of {layout.root} ({isolation['why']})"
    known = (layout.nodes / socket.gethostname() / REGISTERED_FILE).exists()
    if known or with_node or (read_json(layout.mode) or {}).get("with_node"):
        return OwnNode(wanted=True, words=f"warning: {open_words}, so anyone who submits a job can become the operator")
    return OwnNode(
        wanted=False,
        words=f"this machine does not become a node: {open_words}, so anyone who submits a job could become the operator. "
        "Add other machines (./berth join-token). If you trust all who submit jobs, start with --with-node",
    )


def settings_check(layout: Layout) -> None:
    """Ask an agent here whether it takes the variables that it gets. Raises LaunchError."""
    if not any(name.startswith(AGENT_PREFIX) for name in os.environ):
        return
    try:
        done = _agent_ask(layout)
    except subprocess.TimeoutExpired:  # a very busy machine: then the nodes tell it themselves
        return
    if done.returncode == NO_USE:
        why = done.stderr.strip().removeprefix("workers.agent: ")[-300:]
        raise LaunchError(
            f"A node on this machine would not start. {why}.",
            "Correct that variable, or leave it out; docs/settings.md says what each may be.",
        )


def isolation_ask(layout: Layout) -> dict[str, object]:
    """Ask an agent here how far it keeps jobs out: `files`, `signals`, `landlock`, `why`."""
    done = _agent_ask(layout)
    if done.returncode:
        return {"files": False, "why": f"the check failed: {done.stderr.strip()[-200:]}"}
    return dict(json.loads(done.stdout))


def _agent_ask(layout: Layout) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "workers.agent", "--check-isolation", "--url", "http://127.0.0.1"]
    return subprocess.run(  # noqa: S603 - our own argv, no shell
        [*argv, "--dir", str(layout.nodes), "--closed", str(layout.root)],
        cwd=SOURCE,
        env=agent_environment(),
        capture_output=True,
        text=True,
        timeout=CHECK_LIMIT_S,
        check=False,
    )
