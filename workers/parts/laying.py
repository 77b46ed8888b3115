"""Lays a part's files into its directory, and finds where its command starts."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from workers.parts.contents import is_safe
from workers.system.room import is_no_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.parts.accounts import Account
    from workers.protocol.wire import Spec


class SpecError(Exception):
    """The part cannot be prepared. The text names the field and the reason."""


def _below(root: Path, relative: str, *, what: str) -> Path:
    """Return `root/relative`. Raises SpecError when its name leads out of `root`."""
    pure = PurePosixPath(relative)
    if pure.is_absolute() or ".." in pure.parts or "\0" in relative:
        raise SpecError(f"{what} {relative!r} leads out of the job's directory")
    return root / pure


def inside(root: Path, relative: str, *, what: str) -> Path:
    """Return `root/relative`. Raises SpecError when it would lie outside `root`, through a link as well."""
    path = _below(root, relative, what=what)
    if not path.resolve().is_relative_to(root.resolve()):
        raise SpecError(f"{what} {relative!r} leads out of the job's directory through a link")
    return path


def working_directory(job_dir: Path, wanted: str | None, account: Account | None) -> Path:
    """Return the working directory. A relative one is made in the job's directory; an absolute one must exist already.

    An account of its own enters it by its own rights, or fails to: this node's agent, which is root, does not look for it.
    """
    if wanted is None or not wanted.startswith("/"):
        path = inside(job_dir, wanted or ".", what="working_directory")
        path.mkdir(parents=True, exist_ok=True)
        return path
    if account is None and not Path(wanted).is_dir():
        raise SpecError(f"working_directory {wanted} does not exist on this node, or is no directory")
    return Path(wanted)


def files_write(job_dir: Path, files: dict[str, str]) -> None:
    """Write the files below the part's new directory: nobody has written there yet, so there is no link to follow."""
    for name, text in files.items():
        path = _below(job_dir, name, what="file")
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
            if is_no_room(error):  # the node's fault, and over when there is room
                raise
            raise SpecError(f"file {name!r} cannot be written: {error.strerror}") from error


def upload_lay(spec: Spec, job_dir: Path, lay: Callable[[Spec, Path], None]) -> None:
    for file in spec.get("upload") or ():
        if not is_safe(file):
            raise SpecError(f"uploaded file {file['path']!r} leads out of the job's directory")
    lay(spec, job_dir)
