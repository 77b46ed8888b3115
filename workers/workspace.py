"""Making a part ready: its directories, its files and `launch.json`, from which the shim starts."""

from __future__ import annotations

import base64
import binascii
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from workers.files import write_json
from workers.wire import Spec, Wanted, part_name


class SpecError(Exception):
    """The part cannot be made ready; the text names the field and the reason."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What this node adds to every launch."""

    storage: Path
    virtual: bool
    nice: int
    boot_id: str
    node_grace_s: float
    lease_grace_s: float


def inside(root: Path, relative: str, *, what: str) -> Path:
    """`root/relative`, which lies in `root` whatever the name holds. Raises SpecError."""
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or "\0" in relative:
        raise SpecError(f"{what} {relative!r} leads out of the job's directory")
    path = root / pure
    if not path.resolve().is_relative_to(root.resolve()):
        raise SpecError(f"{what} {relative!r} leads out of the job's directory through a link")
    return path


def working_directory(job_dir: Path, wanted: str | None) -> Path:
    """Relative ones lie in the job's directory and are made; an absolute one is the tenant's own and must exist."""
    if wanted is None or not wanted.startswith("/"):
        path = inside(job_dir, wanted or ".", what="working_directory")
        path.mkdir(parents=True, exist_ok=True)
        return path
    if not Path(wanted).is_dir():
        raise SpecError(f"working_directory {wanted} is no directory on this node")
    return Path(wanted)


def _write_files(job_dir: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = inside(job_dir, name, what="file")
        if path == job_dir:
            raise SpecError(f"file {name!r} has no name")
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise SpecError(f"file {name!r} is not base64: {error}") from error
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise SpecError(f"file {name!r} cannot be written: {error.strerror}") from error


def part_prepare(directory: Path, spec: Spec, wanted: Wanted, place: Workplace) -> None:
    """Make everything that the command needs; doing it again begins afresh. Raises SpecError."""
    job_dir, tmp_dir, records_dir = directory / "work", directory / "tmp", directory / "records"
    checkpoint_dir = place.storage / "checkpoints" / str(spec["job"])
    for path in (job_dir, tmp_dir, records_dir):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
    checkpoint_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_files(job_dir, spec["files"])
    cwd = working_directory(job_dir, spec["working_directory"])
    launch: dict[str, Any] = {
        **{key: value for key, value in spec.items() if key != "files"},
        **part_name(spec),
        "part_dir": str(directory),
        "job_dir": str(job_dir),
        "tmp_dir": str(tmp_dir),
        "checkpoint_dir": str(checkpoint_dir),
        "records_dir": str(records_dir),
        "cwd": str(cwd),
        "python": sys.executable,
        "virtual": place.virtual,
        "nice": place.nice,
        "boot_id": place.boot_id,
        "grace_s": place.node_grace_s,
        "lease_grace_s": place.lease_grace_s,
        "leased": wanted["lease_s"] is not None,
    }
    write_json(directory / "launch.json", launch)
