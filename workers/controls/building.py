"""The stages before a job's command, in which its code and software are made ready: as the job, within limits of their own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.controls.diskuse import DiskMeter
from workers.system.files import BrokenFileError, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

WHY_LIMIT = 2000
"""Bytes that are read of the build's own reason of failure: the job's account writes it."""


CODE_SECRET = "BERTH_GIT_SECRET"  # noqa: S105 - the variable's name
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")


def build_launch(launch: Mapping[str, Any], build: Mapping[str, Any]) -> dict[str, Any]:
    """Return the launch of a stage: the job's walls and memory, and of all variables the secrets that are the stage's."""
    if "commit" in build:
        given = {CODE_SECRET: secret} if (secret := launch.get("code_secret", "")) else {}
    else:
        given = {name: launch["environment"][name] for name in launch.get("build_secrets") or ()}
    return {
        **launch,
        "command": "exec " + shlex.join(build["argv"]),
        "environment": given,
        "prefix": None,
        "container": None,
        "cwd": launch["tmp_dir"],
        "copied_from": None,
        "time_limit_s": build["limit_s"],
        "time_limit_fixed": True,
        "walls": build["walls"],
    }


def build_disk(launch: Mapping[str, Any], build: Mapping[str, Any]) -> DiskMeter:
    """Return the disk meter of a build: it counts the environment and the job's directories."""
    roots = [Path(launch["job_dir"]).parent]
    return DiskMeter([*roots, Path(build["entry"])] if build["entry"] else roots, int(build["disk_mib"]))


def build_failure(launch: Mapping[str, Any], build: Mapping[str, Any], reason: str, detail: str) -> tuple[str, str]:
    """Return reason and detail of a job whose code or software was not made ready; `reason`: why the stage ended."""
    what = build.get("what", "its software environment")
    if reason == "exit":
        return "start_failed", f"{what}: {_mask(launch, _why(build['why']))}"
    if reason == "time_limit":
        limit = f"{build['limit_s']:g} s"
        remedy = "Ask for less, or ask the node's operator to register an environment or to raise the limit"
        return "start_failed", f"{what} was not ready within {limit}, the node's limit. {remedy}."
    if reason == "disk_limit":
        said = f"{what} takes more than {build['disk_mib'] / 1024:g} GiB, the node's limit"
        return "start_failed", f"{said}. Ask for less, or ask the node's operator."
    return reason, detail


def commit_of(build: Mapping[str, Any]) -> str | None:
    """Return the commit that the stage has fetched; None: it fetched none. The file is the job's account's to write."""
    if "commit" not in build:
        return None
    text = _read(build["commit"], 100).strip()
    return text if _COMMIT.match(text) else None


def _mask(launch: Mapping[str, Any], text: str) -> str:
    """Return the text without secrets: a server may repeat in its refusal what it was sent."""
    if not launch.get("masked"):
        return text
    from workers.controls.secrets import mask_of

    mask = mask_of(launch["masked"])
    return (mask.feed(text.encode()) + mask.end()).decode(errors="replace")


def _why(path: str) -> str:
    return " ".join(_read(path, WHY_LIMIT).split()) or "the build ended without saying why; see the job's log"


def _read(path: str, limit: int) -> str:
    try:
        return read_bytes(Path(path), limit=limit).decode(errors="replace")
    except (OSError, BrokenFileError):
        return ""
