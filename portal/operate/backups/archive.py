"""A backup's file: a gzipped tar whose first member says what it is, and whose last one says that it is whole.

    berth-backup.json   format, version, when it was made, of which database
    database/...        the database: one SQLite file, or one file of rows a table
    files/...           what lies beside it in the data directory: the signing key, certificates, nodes' tokens
    manifest.json       size and SHA-256 of each member before it, and the database's own figures

A file that ends early lacks the last member; a foreign one, the first. Nothing is unpacked by a name that the archive
chose: a reader asks for members, and gets only those.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from portal.operate.backups.contents import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT, VERSION = "berth-backup", 1
HEADER, MANIFEST = "berth-backup.json", "manifest.json"
MEMBER = re.compile(r"(database|files)/[A-Za-z0-9_][A-Za-z0-9._/-]{0,200}")
LARGEST_JSON = 16 * 1024 * 1024
COMPRESSION = 3
"""The level, out of 9: a third of the time of 9, and files a few per cent larger."""


@dataclass
class Writer:
    """Writes members one after the other; `close` adds the manifest, without which the file is no backup."""

    tar: tarfile.TarFile
    members: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, path: Path) -> None:
        """Add a file under a name. Its content must not change meanwhile."""
        if not MEMBER.fullmatch(name) or ".." in name:
            raise ValueError(f"{name!r} is no member's name")
        with path.open("rb") as file:
            source = _Hashing(file)
            info = tarfile.TarInfo(name)
            info.size, info.mode = os.fstat(file.fileno()).st_size, 0o600
            self.tar.addfile(info, source)
        self.members[name] = {"size": info.size, "sha256": source.digest.hexdigest()}

    def add_json(self, name: str, value: Any) -> None:
        data = json.dumps(value, indent=1).encode()
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), 0o600
        self.tar.addfile(info, io.BytesIO(data))


class _Hashing:
    """Reads a file and hashes what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


@contextmanager
def archive_written(path: Path, header: dict[str, Any]) -> Iterator[Writer]:
    """Write an archive that appears under `path` only when it is whole and on the disk; only its owner can read it.

    The caller adds the members and, last of all, the manifest's facts with `writer.add_json(MANIFEST, ...)`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with (
                gzip.GzipFile(fileobj=file, mode="wb", compresslevel=COMPRESSION, filename="") as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                writer = Writer(tar)
                writer.add_json(HEADER, {"format": FORMAT, "version": VERSION, **header})
                yield writer
            file.flush()
            os.fsync(file.fileno())
        _name(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _name(partial: Path, path: Path) -> None:
    """Give the finished file its name, but never over a file that came meanwhile. Raises FileExistsError."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        partial.rename(path)


@dataclass(frozen=True)
class Unpacked:
    """An archive that was read to its end and found whole. `root` holds its members, each under its name."""

    root: Path
    header: dict[str, Any]
    manifest: dict[str, Any]

    def path(self, name: str) -> Path:
        return self.root / name

    def names(self, room: str) -> list[str]:
        """Name the members of `database` or `files`."""
        return sorted(name for name in self.manifest["members"] if name.startswith(f"{room}/"))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[tarfile.TarFile, gzip.GzipFile]]:
    """Read the tar as a stream. Raises BackupError when it is not a complete backup of Berth."""
    remedy = "Take the file from where it was made once more, or another backup."
    try:
        with path.open("rb") as file:
            if file.read(2) != b"\x1f\x8b":
                raise BackupError(
                    f"{path} is no backup of Berth: it is not gzipped.", "Give a file that ./berth backup made."
                )
            file.seek(0)
            with gzip.GzipFile(fileobj=file) as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
                yield tar, packed
    except FileNotFoundError as error:
        raise BackupError(f"There is no file {path}.", "Name a file that ./berth backup made.") from error
    except IsADirectoryError as error:
        raise BackupError(f"{path} is a directory.", "Name one of the backups in it.") from error
    except (EOFError, tarfile.ReadError, gzip.BadGzipFile, zlib.error) as error:
        raise BackupError(f"{path} is damaged or was cut off ({error}).", remedy) from error
    except OSError as error:
        raise BackupError(f"{path} cannot be read ({error.strerror or error}).", remedy) from error


def _json_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
    source = tar.extractfile(member)
    data = source.read(LARGEST_JSON) if source is not None and member.size < LARGEST_JSON else b""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _header_of(path: Path, tar: tarfile.TarFile) -> dict[str, Any]:
    first = tar.next()
    header = _json_of(tar, first) if first is not None and first.name == HEADER else {}
    if header.get("format") != FORMAT:
        raise BackupError(f"{path} is no backup of Berth.", "Give a file that ./berth backup made.")
    if header.get("version") != VERSION:
        raise BackupError(
            f"{path} was made by another version of Berth (its format is {header.get('version')}, this one reads {VERSION}).",
            "Restore it with the version that made it.",
        )
    return header


def header_read(path: Path) -> dict[str, Any]:
    """Return a backup's own header. Raises BackupError for anything else."""
    with _opened(path) as (tar, _):
        return _header_of(path, tar)


def archive_unpack(path: Path, root: Path) -> Unpacked:
    """Unpack into an empty directory and check each member. Raises BackupError unless the archive is whole."""
    found: dict[str, dict[str, Any]] = {}
    manifest: dict[str, Any] = {}
    with _opened(path) as (tar, packed):
        header = _header_of(path, tar)
        while (member := tar.next()) is not None:
            if manifest:
                raise BackupError(f"{path} holds something after its end.", "Do not trust it; take another backup.")
            if member.name == MANIFEST:
                manifest = _json_of(tar, member)
            else:
                found[member.name] = _unpack(path, tar, member, root)
        while packed.read(1 << 20):  # to its very end, where gzip's own checksum stands
            pass
    if not manifest:
        raise BackupError(f"{path} was cut off: its end is missing.", "Take the file from where it was made once more.")
    if found != manifest.get("members"):
        raise BackupError(f"{path} is damaged: its content is not what its end says.", "Take another backup.")
    return Unpacked(root, header, manifest)


def _unpack(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> dict[str, Any]:
    source = tar.extractfile(member) if member.isreg() else None
    if source is None or not MEMBER.fullmatch(member.name) or ".." in member.name:
        raise BackupError(
            f"{path} holds {member.name!r}, which no backup holds.", "Do not trust it; take another backup."
        )
    target = root / member.name
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    hashing = _Hashing(source)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while data := hashing.read(1 << 20):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"size": member.size, "sha256": hashing.digest.hexdigest()}
