"""The script of a pilot: it starts an agent in a job of the other scheduler, and removes its folder at the end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATH = "/usr/local/bin:/usr/bin:/bin"
SCRIPT = """\
#!/bin/sh
PATH={path}; export PATH
umask 077
name=$SLURMD_NODENAME
{suffix}
dir={node_dir}/{order}
mkdir -p "$dir" || exit 1
BERTH_AGENT_TOKEN=$(cat {token}) && rm -f {token} || exit 1
export BERTH_AGENT_TOKEN
trap : TERM
trust=
{berth} node --join {url} --dir "$dir" --check-isolation 2>/dev/null | grep -q '"landlock": [1-9]' && trust=--trust-tenants
{berth} node {flags} --name "$name" --dir "$dir" $trust
code=$?
rm -rf "$dir"
exit $code
"""
OF_GPUS = 'name="$name-g${SLURM_JOB_GPUS%%[,-]*}"'
"""Several pilots may be on one node: the first of their GPUs tells them apart."""


def token_path(directory: Path, order: str) -> Path:
    """Return the file with which an order's agent joins. Its folder is closed to jobs."""
    return directory / "private" / f"{order}.token"


def pilot_script(
    *, order: str, whole: bool, berth: Path, url: str, directory: Path, node_dir: Path, flags: Sequence[str]
) -> str:
    """Return the script. It holds no secret: the other scheduler keeps it, and its admins read it."""
    return SCRIPT.format(
        path=PATH,
        suffix="" if whole else OF_GPUS,
        node_dir=shlex.quote(str(node_dir)),
        order=shlex.quote(order),
        token=shlex.quote(str(token_path(directory, order))),
        berth=shlex.quote(str(berth)),
        url=shlex.quote(url),
        flags=shlex.join(["--join", url, "--allocation", "slurm", *flags]),
    )
