"""Whether the machine that the portal runs on is a node as well: yes, where its jobs are kept out of the data directory.

A job of the same account could otherwise read the signing key, the nodes' tokens and the database, and become the
operator. The demo's virtual nodes are asked for by name, and their tenants trust each other.
"""

import json
import socket
import subprocess
import sys
from dataclasses import dataclass

from portal.launch.programs import REGISTERED_FILE, agent_environment
from portal.layout import SOURCE, Layout, read_json

CHECK_LIMIT_S = 30.0


@dataclass(frozen=True)
class OwnNode:
    """`wanted`: this machine is to be a node; `words`: what to say about it, empty when all is as it should be."""

    wanted: bool
    words: str = ""


def own_node(layout: Layout, *, with_node: bool) -> OwnNode:
    """Decide, and say why. What is a node already stays one: jobs may run on it."""
    isolation = isolation_ask(layout)
    if isolation["files"]:
        return OwnNode(wanted=True)
    open_words = f"jobs on this machine are not kept out of {layout.root} ({isolation['why']})"
    known = (layout.nodes / socket.gethostname() / REGISTERED_FILE).exists()
    if known or with_node or (read_json(layout.mode) or {}).get("with_node"):
        return OwnNode(wanted=True, words=f"mind: {open_words}: whoever submits one can become the operator")
    return OwnNode(
        wanted=False,
        words=f"this machine is no node: {open_words}, so whoever submits one could become the operator. Add other machines "
        "(./berth join-token), or start with --with-node where you trust all who submit",
    )


def isolation_ask(layout: Layout) -> dict[str, object]:
    """What an agent here says of its isolation: `files`, `signals`, `landlock`, `why`."""
    argv = [sys.executable, "-m", "workers.agent", "--check-isolation", "--url", "http://127.0.0.1"]
    done = subprocess.run(  # noqa: S603 - our own argv, no shell
        [*argv, "--dir", str(layout.nodes), "--closed", str(layout.root)],
        cwd=SOURCE,
        env=agent_environment(),
        capture_output=True,
        text=True,
        timeout=CHECK_LIMIT_S,
        check=False,
    )
    if done.returncode:
        return {"files": False, "why": f"it could not be found out: {done.stderr.strip()[-200:]}"}
    return dict(json.loads(done.stdout))
