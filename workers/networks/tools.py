"""Calls the two programs by which Linux's networks are set: `ip` of iproute2 and `nft` of nftables."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from workers.system.netns import inside

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = {"ip": "iproute2", "nft": "nftables"}
LIMIT_S = 20.0
_GROUPS = Path("/sys/fs/cgroup")
_BOUND = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'


class NetworkError(OSError):
    """A network could not be set. The text says which program refused, and why."""


def missing() -> list[str]:
    return [package for program, package in PACKAGES.items() if shutil.which(program, path=PATH) is None]


def ip(lines: Sequence[str], namespace: int | None = None, *, handed: int | None = None) -> None:
    """Do as these lines of `ip` say, in a namespace; `handed`: a descriptor that they name. Raises NetworkError."""
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n", namespace, handed)


def nft(rules: str, namespace: int | None = None, *, groups: Path | None = None) -> None:
    """Load rules, all or none of them. `groups`: where cgroup 2 is mounted, if they name groups. Raises NetworkError.

    nft looks groups up only below /sys/fs/cgroup. Where something else lies there, this one call mounts the tree there.
    """
    words = ["nft", "-f", "-"]
    if groups is not None and groups != _GROUPS:
        words = ["unshare", "--mount", "sh", "-c", _BOUND, str(groups), *words]
    _run(words, rules, namespace, None)


def table_is_there(table: str) -> bool:
    try:
        _run(["nft", "list", "table", "inet", table], "", None, None)
    except NetworkError:
        return False
    return True


def _run(words: list[str], text: str, namespace: int | None, handed: int | None) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own words
            words,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            env={"PATH": PATH, "LC_ALL": "C"},
            pass_fds=() if handed is None else (handed,),
        )

    try:
        done = inside(namespace, run)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"{words[0]}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:200]
        raise NetworkError(f"{words[0]}: {said or f'it ended with {done.returncode}'}")


def sysctl(name: str, value: str) -> None:
    """Set one of /proc/sys, unless it is so. Raises NetworkError."""
    path = Path("/proc/sys", name)
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError as error:
        raise NetworkError(f"{path} cannot be set to {value}: {os.strerror(error.errno or 0)}") from error
