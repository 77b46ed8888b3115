"""Walks and reads a folder that a hostile job writes to, while it writes: by descriptors, through no link, without waiting.

The reader may be root, and the job may swap a directory for a link, a file for a pipe, or a name for /etc/shadow's, between
any two calls. So each name is opened relative to an open directory with O_NOFOLLOW and O_NONBLOCK, and what was opened is
looked at, not its name: only plain files with one name, of the folder's own owner and on its file system, count.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEEPEST = 32
MOST_ENTRIES = 100_000
"""So many names are looked at in one walk: a second or so."""
PATH_BYTES = 1024
MOST_NOTES = 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class GoneError(Exception):
    """There is no such plain file any more, or it is another than it was."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A plain file: bytes, when it was last written (ns since 1970), and its inode."""

    size: int
    modified_ns: int
    inode: int


@dataclass(slots=True)
class Walk:
    """What a walk found: files by path, and (path, why) of the first names that were left out."""

    files: dict[str, Seen] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    entries: int = 0

    def note(self, path: str, why: str) -> None:
        if len(self.notes) < MOST_NOTES:
            shown = path[:200].encode("utf-8", "replace").decode()
            self.notes.append(("".join(char if char.isprintable() else "?" for char in shown), why))


def _folder_open(root: Path, below: str) -> tuple[int, os.stat_result]:
    """Open the folder `below` `root`, name by name; return it, and what `root` is like. Raises OSError."""
    at = os.open(root, _DIRECTORY)
    own = os.fstat(at)
    for name in below.split("/") if below else ():
        if name in {"", ".", ".."}:
            os.close(at)
            raise NotADirectoryError(below)
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at, own


def folder_walk(root: Path, *, most_files: int, below: str = "", patterns: Sequence[str] | None = None) -> Walk:
    """Return the plain files of the folder `below` `root` by their paths in it; an absent one has none.

    `patterns`: those that match one of them. What `root` is like says whose files count.
    """
    found = Walk()
    try:
        descriptor, own = _folder_open(root, below)
    except OSError:
        return found
    split = None if patterns is None else [pattern.split("/") for pattern in patterns]
    stack = [("", descriptor, _entries(descriptor))]
    try:
        while stack:
            prefix, above, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[1])
                continue
            found.entries += 1
            if found.entries > MOST_ENTRIES:
                found.note(prefix or ".", f"there are more than {MOST_ENTRIES} names; the rest is not looked at")
                break
            path = prefix + name
            inner = _take(found, path, name, above, own, split, most_files)
            if inner is None:
                continue
            if len(stack) >= DEEPEST:
                found.note(path, f"it lies more than {DEEPEST} folders deep")
                os.close(inner)
            else:
                stack.append((path + "/", inner, _entries(inner)))
    finally:
        for _, descriptor, _names in stack:
            os.close(descriptor)
    return found


def _entries(descriptor: int) -> Iterator[str]:
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                yield entry.name
    except OSError:  # the directory was removed while it was read
        return


def _take(
    found: Walk,
    path: str,
    name: str,
    above: int,
    own: os.stat_result,
    patterns: list[list[str]] | None,
    most_files: int,
) -> int | None:
    """Note one name; return a descriptor where it is a directory to go into."""
    try:
        about = os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISDIR(about.st_mode):
        if about.st_dev != own.st_dev or (patterns is not None and not _leads(path, patterns)):
            return None
        with contextlib.suppress(OSError):
            return os.open(name, _DIRECTORY, dir_fd=above)
        return None
    if patterns is not None and not any(_matches(path.split("/"), pattern) for pattern in patterns):
        return None
    why = _problem(about, own) or _name_problem(path)
    if why is None and len(found.files) >= most_files:
        why = f"a job may keep {most_files} files, and it has more"
    if why is not None:
        found.note(path, why)
    else:
        found.files[path] = Seen(about.st_size, about.st_mtime_ns, about.st_ino)
    return None


def _problem(about: os.stat_result, own: os.stat_result) -> str | None:
    """Return why what was found is no file to take; None where it is."""
    if stat.S_ISLNK(about.st_mode):
        return "it is a link"
    if not stat.S_ISREG(about.st_mode):
        return "it is no plain file"
    if about.st_nlink != 1:
        return "it has a second name (a hard link); copy it instead"
    if about.st_uid != own.st_uid:
        return "it belongs to another account"
    return "it lies on another file system" if about.st_dev != own.st_dev else None


def _name_problem(path: str) -> str | None:
    try:
        return f"its path is longer than {PATH_BYTES} bytes" if len(path.encode()) > PATH_BYTES else None
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"


def _matches(names: list[str], pattern: list[str]) -> bool:
    """Say whether a path matches a pattern, name by name; `**` stands for any number of folders."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return _matches(names, pattern[1:]) or bool(names and _matches(names[1:], pattern))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])


def _leads(path: str, patterns: list[list[str]]) -> bool:
    """Say whether a folder may hold what matches."""
    names = path.split("/")
    for pattern in patterns:
        at = pattern.index("**") if "**" in pattern else len(pattern)
        pairs = zip(names[:at], pattern[:at], strict=False)
        if (len(names) < len(pattern) or "**" in pattern) and all(fnmatchcase(name, each) for name, each in pairs):
            return True
    return False


def file_open(root: Path, path: str) -> int:
    """Open a plain file below `root`, name by name. Raises GoneError where there is none that may be read."""
    folder, _, name = path.rpartition("/")
    if name in {"", ".", ".."}:
        raise GoneError(path)
    try:
        at, own = _folder_open(root, folder)
        try:
            descriptor = os.open(name, _FILE, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise GoneError(path) from error
    if _problem(os.fstat(descriptor), own) is not None:
        os.close(descriptor)
        raise GoneError(path)
    return descriptor


def file_read(root: Path, path: str, told: Seen, *, start: int, stop: int, may_grow: bool) -> bytes:
    """Return bytes `start` to before `stop` of the very content that was `told`. Raises GoneError where it is another now.

    `may_grow`: what was told is the beginning of a file that is appended to.
    """
    descriptor = file_open(root, path)
    try:
        data = bytearray()
        while start + len(data) < stop and (piece := os.pread(descriptor, stop - start - len(data), start + len(data))):
            data += piece
        about = os.fstat(descriptor)
    except OSError as error:
        raise GoneError(path) from error
    finally:
        os.close(descriptor)
    now = Seen(about.st_size, about.st_mtime_ns, about.st_ino)
    grown = may_grow and now.inode == told.inode and now.size >= told.size
    if (now != told and not grown) or len(data) != stop - start:
        raise GoneError(path)
    return bytes(data)
