"""Save what a job wrote: in ranges, so that memory stays small and a broken download goes on; checked by its SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

from berth_client.errors import ClientError, RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from berth_client.jobs import Jobs
    from berth_client.shapes import Artefact

STEP_BYTES = 8 * 1024 * 1024
_PAST_THE_END = 416


_NOT_THERE = frozenset('<>:"\\|?*')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?\Z", re.IGNORECASE)


def local_path(folder: Path, path: str, *, windows: bool = os.name == "nt") -> Path:
    """Return where an artefact lies below `folder`. Raises ClientError for a path that leads out of it, or is none here."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or (windows and _is_odd(part)) for part in parts):
        raise ClientError(f"{path!r} is no path that can be written here.")
    return folder.joinpath(*parts)


def _is_odd(name: str) -> bool:
    """Say whether Windows knows no such name, or reads another one in it."""
    return bool(_NOT_THERE & set(name) or name.endswith((".", " ")) or _DEVICES.match(name) or not name.isprintable())


def artefact_save(jobs: Jobs, number: int | str, row: Artefact, target: Path) -> None:
    """Write one kept artefact to `target`. It resumes the partial file of an earlier try, which is named by its content.

    Raises ClientError where it cannot be written, or where what arrived is not what the list says.
    """
    part = target.with_name(f".{str(row['sha256'])[:32]}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):  # a partial file may have other content: then all once more
            _fetch(jobs, number, row, part)
            if _digest(part) == row["sha256"]:
                part.replace(target)
                return
            part.unlink()
    except OSError as error:
        raise ClientError(f"{target} cannot be written: {error.strerror}.") from None
    except UnicodeEncodeError:
        raise ClientError(f"{target} cannot be written: this system's names cannot have such letters.") from None
    raise ClientError(f"{row['path']} changed while it was fetched; try again.")


def _fetch(jobs: Jobs, number: int | str, row: Artefact, part: Path) -> None:
    size = row["size"] or 0
    with part.open("ab") as file:
        while (at := file.tell()) < size:
            try:
                data = jobs.jobs_artefact_get(number, row["path"], Range=f"bytes={at}-{min(size, at + STEP_BYTES) - 1}")
            except RefusedError as error:
                if error.status == _PAST_THE_END:  # it is shorter now
                    return
                raise
            if not data:
                return
            file.write(data)
        if file.tell() > size:
            file.truncate(0)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
