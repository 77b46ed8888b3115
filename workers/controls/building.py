"""The stage before a job's command, in which its software is made ready: as the job, within limits of its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.controls.diskuse import DiskMeter
from workers.system.files import BrokenFileError, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

WHY_LIMIT = 2000
"""Bytes that are read of what the build says about its failure: it is written by the job's account."""


def build_launch(launch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the launch of the building stage: the job's walls and memory, without the tenant's variables."""
    build = launch["build"]
    return {
        **launch,
        "command": "exec " + shlex.join(build["argv"]),
        "environment": {},
        "prefix": None,
        "container": None,
        "cwd": launch["tmp_dir"],
        "copied_from": None,
        "time_limit_s": build["limit_s"],
        "time_limit_fixed": True,
        "walls": build["walls"],
    }


def build_disk(launch: Mapping[str, Any]) -> DiskMeter:
    """Return what measures the environment while it is built, with what the build puts into the job's directories."""
    build = launch["build"]
    roots = [Path(launch["job_dir"]).parent]
    return DiskMeter([*roots, Path(build["entry"])] if build["entry"] else roots, int(build["disk_mib"]))


def build_failure(launch: Mapping[str, Any], reason: str, detail: str) -> tuple[str, str]:
    """Return reason and detail of a job whose software was not made ready; `reason`: why the stage ended."""
    build = launch["build"]
    if reason == "exit":
        return "start_failed", f"its software environment: {_why(Path(build['why']))}"
    if reason == "time_limit":
        limit = f"{build['limit_s']:g} s"
        remedy = "Ask for less, or ask the node's operator to register an environment or to raise the limit"
        return "start_failed", f"its software environment was not ready within {limit}, the node's limit. {remedy}."
    if reason == "disk_limit":
        said = f"its software environment takes more than {build['disk_mib'] / 1024:g} GiB, the node's limit"
        return "start_failed", f"{said}. Ask for less, or ask the node's operator."
    return reason, detail


def _why(path: Path) -> str:
    try:
        text = read_bytes(path, limit=WHY_LIMIT).decode(errors="replace")
    except (OSError, BrokenFileError):
        text = ""
    return " ".join(text.split()) or "the build ended without saying why; see the job's log"
