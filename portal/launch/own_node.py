"""Decides whether the portal's machine is a node too. It is one if the kernel keeps jobs out of the data directory.

Otherwise a job, which runs under the same account, could read the signing key, the nodes' tokens and the database, and so
become the operator. This is not asked for the demo: its tenants trust each other.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass

from portal.foundation.command_errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch.programs import AGENT_PREFIX, REGISTERED_FILE, agent_environment

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
