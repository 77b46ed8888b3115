"""The files of jobs: uploads are fetched from the portal once and kept by their hash; all are laid into each part's directory.

Kept contents lie in the agent's own directory, where no job writes. All the same each copy is checked by its hash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from workers.portal_client import Portal, PortalRefusedError
from workers.system import log
from workers.system.room import is_no_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workers.parts.accounts import Account
    from workers.protocol.wire import Spec, SpecFile
    from workers.system.filework import FileWork

PIECE_BYTES = 1024 * 1024
MIB, GIB = 2**20, 2**30


class ContentsError(Exception):
    """The files cannot be had here: they do not fit on the disk, or the portal lacks one. The text says which."""


class DamagedError(Exception):
    """A content is not what its hash says. It was removed, and is fetched again."""


class Contents:
    """`root`: where contents are kept; above `limit_gib` the longest unused go. `spare_mib`: room that stays free."""

    def __init__(self, root: Path, *, portal: Portal, files: FileWork, limit_gib: float, spare_mib: int) -> None:
        self._root, self._portal, self._files = root, portal, files
        self._limit_bytes, self._spare_bytes = round(limit_gib * GIB), spare_mib * MIB

    async def fetch(self, spec: Spec) -> None:
        """Have all contents here that the part's files need. Raises ContentsError, OSError, and errors of the portal's calls."""
        wanted = {file["sha256"]: file["size_bytes"] for file in spec.get("upload") or ()}
        if not wanted:
            return
        about = f"contents of {spec['attempt']}"
        to_lay = sum(file["size_bytes"] for file in spec["upload"])
        missing = await self._files.run(about, self._missing, wanted, to_lay, limit_s=None)
        for sha256 in missing:
            await self._fetch_one(spec["attempt"], sha256, wanted[sha256])
        await self._files.run(about, self._trim, set(wanted), limit_s=None)

    def _missing(self, wanted: dict[str, int], to_lay: int) -> list[str]:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        missing = []
        for sha256, size_bytes in wanted.items():
            path = content_path(self._root, sha256)
            try:
                is_whole = path.stat().st_size == size_bytes
                os.utime(path)
            except FileNotFoundError:
                is_whole = False
            if not is_whole:
                missing.append(sha256)
        need = to_lay + sum(wanted[sha256] for sha256 in missing)
        about = os.statvfs(self._root)
        free = about.f_bavail * about.f_frsize - self._spare_bytes
        if need > free:
            raise ContentsError(
                f"its files need {need / MIB:.1f} MiB, and the node's disk has {max(free, 0) / MIB:.1f} MiB for them"
            )
        return missing

    async def _fetch_one(self, attempt: str, sha256: str, size_bytes: int) -> None:
        """Fetch one content; it gets its name once it is whole and right. Nothing is left of one that fails."""
        target = content_path(self._root, sha256)
        partly = target.with_name(f"{sha256}.{os.urandom(4).hex()}.part")
        found = hashlib.sha256()
        target.parent.mkdir(exist_ok=True, mode=0o700)
        try:
            with partly.open("wb") as file:

                def take(data: bytes) -> None:
                    file.write(data)
                    found.update(data)

                async for piece in self._portal.content(attempt, sha256):
                    if file.tell() + len(piece) > size_bytes:
                        break
                    await self._files.run(f"contents of {attempt}", take, piece, limit_s=None)
        except PortalRefusedError as refusal:
            if refusal.status != 404:
                raise
            raise ContentsError(
                "the portal does not have one of its files: an upload that was removed, or an input that is not kept any more"
            ) from refusal
        else:
            if found.hexdigest() != sha256:
                raise DamagedError(f"the portal sent another content than {sha256[:12]}")
            partly.replace(target)
        finally:
            partly.unlink(missing_ok=True)

    def lay(self, spec: Spec, directory: Path) -> None:
        """Write the part's files below its new directory, in which nobody else has written yet. Raises DamagedError, OSError."""
        for file in spec.get("upload") or ():
            self._lay_one(file, directory)

    def _lay_one(self, file: SpecFile, directory: Path) -> None:
        kept, path = content_path(self._root, file["sha256"]), directory / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        found = hashlib.sha256()
        try:
            source = kept.open("rb")
        except FileNotFoundError:
            raise DamagedError(f"{file['path']} is not here any more") from None
        with source, os.fdopen(os.open(path, flags, 0o755 if file["executable"] else 0o644), "wb") as target:
            while piece := source.read(PIECE_BYTES):
                found.update(piece)
                target.write(piece)
        if found.hexdigest() != file["sha256"]:
            kept.unlink(missing_ok=True)
            raise DamagedError(f"this node's copy of {file['path']} was damaged")

    def _trim(self, keep: set[str]) -> None:
        """Remove the longest unused contents above the limit, and the remains of a killed agent's fetch."""
        found = sorted(self._list())
        over = sum(size for _, size, _ in found) - self._limit_bytes
        for _, size, path in found:
            if over <= 0:
                break
            if path.name not in keep:
                path.unlink(missing_ok=True)
                over -= size
                log.info("content removed", sha256=path.name[:12], bytes=size)

    def _list(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._root.glob("*/*"):
            with suppress(FileNotFoundError):
                about = path.stat()
                yield about.st_mtime, about.st_size, path


def content_path(root: Path, sha256: str) -> Path:
    return root / sha256[:2] / sha256


def is_safe(file: Any) -> bool:
    """Say whether a file of a spec stays below the part's directory, and its hash is one: the portal checked both."""
    parts = str(file["path"]).split("/")
    plain = all(part not in {"", ".", ".."} for part in parts) and "\0" not in file["path"]
    return plain and len(file["sha256"]) == 64 and set(file["sha256"]) <= set("0123456789abcdef")


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
