"""The line that makes another machine a node: the console and `./berth join-token` print it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def join_line(*, url: str, mode: Mapping[str, Any], secret: str, name: str) -> str:
    """Return the whole command: with the node's name when the token is for one node only, and our authority's SHA-256.

    `mode` is what `./berth up` wrote of itself (empty elsewhere).
    """
    words = ["./berth", "node", "--join", url, "--token", secret]
    if name:
        words += ["--name", name]
    if mode.get("ca_sha256"):
        words += ["--ca-sha256", mode["ca_sha256"]]
    elif url.startswith("http://"):
        words.append("--insecure")
    return shlex.join(words)
