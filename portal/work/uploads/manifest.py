"""The list of an upload's files: its check, and the hash that names it. Pure: no database, no disk."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING

from portal.foundation import checks
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_FILES = 10_000
MOST_FOLDERS = 20_000
MAX_PATH_CHARS = 1024
MAX_PART_BYTES = 255
MIB = 2**20
SHA256_PATTERN = "^[0-9a-f]{64}$"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its path below the job's directory, its content's hash and size, and whether it may be executed."""

    path: str
    sha256: str
    size_bytes: int
    executable: bool


def sha256_check(value: object, field: str) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise BerthError("bad_sha256", f"`{field}` is not a SHA-256: 64 digits and letters a to f.", field=field)
    return value


def entries_read(value: object, *, limit_mib: int) -> list[Entry]:
    """Return the files by path. Raises BerthError: a path that leads away, too many, more than `limit_mib` in all."""
    listed = checks.items(value, "files", max_items=MOST_FILES)
    if not listed:
        raise BerthError("blank", "`files` is empty; name at least one file.", field="files")
    found = [_entry(each) for each in listed]
    _names_check([entry.path for entry in found])
    _sizes_check(found, limit_mib=limit_mib)
    return sorted(found, key=lambda entry: entry.path)


def _entry(value: object) -> Entry:
    given = checks.mapping(value, "files", max_items=8)
    checks.known_keys(given, "files", required={"path", "sha256", "size_bytes"}, optional={"executable"})
    executable = given.get("executable")
    return Entry(
        path=path_check(given["path"]),
        sha256=sha256_check(given["sha256"], "files.sha256"),
        size_bytes=checks.whole(given["size_bytes"], "files.size_bytes", 0, 2**50),
        executable=False if executable is None else checks.flag(executable, "files.executable"),
    )


def path_check(value: object) -> str:
    """Return a path below the job's directory. Codes path_escape, bad_file_name, control_character and their kin."""
    path = checks.text(value, "files.path", max_chars=MAX_PATH_CHARS)
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        detail = f"The file name {checks.quoted(path)} leaves the job's directory; use a relative name without `..`."
        raise BerthError("path_escape", detail, field="files")
    if path != value or any(part.strip() in {"", "."} or len(part.encode()) > MAX_PART_BYTES for part in parts):
        detail = f"The file name {checks.quoted(path)} is not a plain relative name such as `data/input.txt`."
        raise BerthError("bad_file_name", detail, field="files")
    return path


def _names_check(paths: list[str]) -> None:
    """Refuse a path that stands twice, also in another spelling of the same characters, or is a file and a directory."""
    seen: set[str] = set()
    for path in paths:
        normal = unicodedata.normalize("NFC", path)
        if normal in seen:
            raise BerthError(
                "duplicate", f"The file {checks.quoted(path)} is listed twice; list it once.", field="files"
            )
        seen.add(normal)
    folders_check(paths)


def folders_check(paths: Iterable[str]) -> None:
    """Refuse a path that is a file and a folder, and more folders than a node should make for a job.

    A folder's files come right behind its own name, however deep they lie.
    """
    ordered = sorted(unicodedata.normalize("NFC", path).replace("/", "\0") for path in paths)
    folders = 0
    for above, path in pairwise(["", *ordered]):
        shared = len(commonprefix((above, path)))  # noqa: RUF071 - of characters is meant
        folders += path.count("\0") - path.count("\0", 0, shared)
        if folders > MOST_FOLDERS:
            detail = f"The files lie in more than {MOST_FOLDERS} folders; pack them into an archive."
            raise BerthError("too_many", detail, field="files")
        if above and path.startswith(f"{above}\0"):
            name = above.replace("\0", "/")
            detail = f"{checks.quoted(name)} would be a file and a directory; rename one."
            raise BerthError("bad_file_name", detail, field="files")


def _sizes_check(entries: Iterable[Entry], *, limit_mib: int) -> None:
    sizes: dict[str, int] = {}
    total = 0
    for entry in entries:
        total += entry.size_bytes
        if sizes.setdefault(entry.sha256, entry.size_bytes) != entry.size_bytes:
            detail = (
                f"{checks.quoted(entry.path)} has the hash of another file, but another size; list the files again."
            )
            raise BerthError("size_mismatch", detail, field="files")
    if total > limit_mib * MIB:
        raise too_large(total, limit_mib)


def too_large(size_bytes: int, limit_mib: int) -> BerthError:
    detail = (
        f"These files have {size_bytes / MIB:.1f} MiB, and a job brings at most {limit_mib} MiB. Leave out what it does not "
        "need (`.berthignore`), and put large input on storage that the nodes can read."
    )
    return BerthError("too_large", detail, field="files", status=413)


def digest_of(entries: Iterable[Entry]) -> str:
    """Return the hash that names an upload: of its list in one spelling, by path."""
    rows = [[entry.path, entry.sha256, entry.size_bytes, entry.executable] for entry in entries]
    return hashlib.sha256(json.dumps(sorted(rows), separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
