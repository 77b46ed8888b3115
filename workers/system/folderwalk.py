"""Walks and reads a folder that a hostile job writes to, while it writes: by descriptors, through no link, without waiting.

The reader may be root, and the job may swap a directory for a link, a file for a pipe, or a name for /etc/shadow's, between
any two calls. So each name is opened relative to an open directory with O_NOFOLLOW and O_NONBLOCK, and the open file is
looked at, not its name: only plain files with one name, of the folder's own owner and on its file system, count.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workers.system.patterns import Patterns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEEPEST = 32
MOST_ENTRIES = 100_000
"""Most names of one walk: a second or so."""
PATH_BYTES = 1024
MOST_BYTES = 2**62
"""A file with more, which is holes, has a size that the portal cannot count."""
MOST_NOTES, NOTE_CHARACTERS = 20, 200
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
    """A walk's result: files by path, and (path, why) of those left out."""

    files: dict[str, Seen] = field(default_factory=dict)
    entries: int = 0
    folders: list[tuple[str, str]] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    uncounted: int = 0

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Return the report: whole folders that were not looked at, then the first names."""
        return (self.folders + self.names)[:MOST_NOTES]

    @property
    def more(self) -> int:
        """Return how many others there are beside `notes`."""
        return len(self.folders) + len(self.names) + self.uncounted - len(self.notes)

    def note(self, path: str, why: str) -> None:
        if len(self.names) < MOST_NOTES:
            self.names.append((show_path(path), why))
        else:
            self.uncounted += 1

    def note_folder(self, path: str, why: str) -> None:
        if len(self.folders) < MOST_NOTES:
            self.folders.append((show_path(path), why))
        else:
            self.uncounted += 1

    def note_all(self, other: Walk) -> None:
        """Tell what another walk left out as well."""
        self.folders += other.folders
        self.names += other.names
        self.uncounted += other.uncounted


def show_path(path: str) -> str:
    """Return a path for a person: invisible characters are escaped as in Python, and a long one has its two ends."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in path)
    if len(shown) > NOTE_CHARACTERS:
        half = NOTE_CHARACTERS // 2
        shown = shown[: half - 1] + "\N{HORIZONTAL ELLIPSIS}" + shown[-half:]
    return shown if shown == shown.strip() else f"'{shown}'"


def _folder_open(root: Path, below: str) -> tuple[int, os.stat_result]:
    """Open the folder `below` `root`, name by name; return it, and the status of `root`. Raises OSError."""
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

    `patterns`: those that match one of them. The owner in the status of `root` says whose files count.
    """
    found = Walk()
    try:
        descriptor, own = _folder_open(root, below)
    except OSError as error:
        _note_unopened(found, below or ".", error)
        return found
    asked = Patterns(["**"] if patterns is None else patterns)
    stack = [("", descriptor, _entries(descriptor), asked.begin)]
    try:
        while stack:
            prefix, above, names, places = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[1])
                continue
            found.entries += 1
            if (why := _enough(found, asked)) is not None:
                found.note_folder(prefix or ".", f"{why}; the rest is not looked at")
                break
            path, here = prefix + name, asked.into(places, name)
            inner = _take(found, path, above, own, most_files, asked.is_match(here), asked.may_lead(here))
            if inner is None:
                continue
            if len(stack) >= DEEPEST:
                found.note(path, f"it lies more than {DEEPEST} folders deep")
                os.close(inner)
            else:
                stack.append((path + "/", inner, _entries(inner), here))
    finally:
        for _, descriptor, *_rest in stack:
            os.close(descriptor)
    return found


def _enough(found: Walk, asked: Patterns) -> str | None:
    """Return why a walk ends before it has seen all; None where it goes on."""
    if found.entries > MOST_ENTRIES:
        return f"there are more than {MOST_ENTRIES} names"
    return "the job's patterns are too many for so many names" if asked.is_tired else None


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
    above: int,
    own: os.stat_result,
    most_files: int,
    matches: bool,
    leads: bool,
) -> int | None:
    """Note one name; return a descriptor where it is a directory to go into."""
    if not matches and not leads:
        return None
    name = path.rpartition("/")[2]
    try:
        about = os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISDIR(about.st_mode):
        return _enter(found, path, above, about.st_dev == own.st_dev) if leads else None
    if not matches:
        return None
    why = _problem(about, own) or _name_problem(path)
    if why is None and len(found.files) >= most_files:
        why = f"a job may keep {most_files} files, and it has more"
    if why is not None:
        found.note(path, why)
    else:
        found.files[path] = Seen(about.st_size, about.st_mtime_ns, about.st_ino)
    return None


def _enter(found: Walk, path: str, above: int, same: bool) -> int | None:
    """Open a folder to go into; None where that fails, which is noted."""
    if not same:
        found.note_folder(path, "it lies on another file system: nothing in it is looked at")
        return None
    try:
        return os.open(path.rpartition("/")[2], _DIRECTORY, dir_fd=above)
    except OSError as error:
        _note_unopened(found, path, error)
        return None


def _note_unopened(found: Walk, path: str, error: OSError) -> None:
    """Tell of a folder that could not be opened; one that is not there, or no more, has nothing to tell of."""
    if isinstance(error, PermissionError):
        found.note_folder(path, "the agent may not enter this folder")
    elif isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        found.note_folder(path, "it is a link, or no folder: nothing in it is looked at")
    elif not isinstance(error, FileNotFoundError):
        found.note_folder(path, f"this folder cannot be read: {error.strerror}")


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
    if about.st_size > MOST_BYTES:
        return "it says that it is larger than any disk"
    return "it lies on another file system" if about.st_dev != own.st_dev else None


def _name_problem(path: str) -> str | None:
    try:
        return f"its path is longer than {PATH_BYTES} bytes" if len(path.encode()) > PATH_BYTES else None
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"


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


def file_read(root: Path, path: str, seen: Seen, *, start: int, stop: int, may_grow: bool) -> bytes:
    """Return bytes `start` to before `stop` of the very content of `seen`. Raises GoneError where it is another now.

    `may_grow`: `seen` is the beginning of a file that is appended to.
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
    grown = may_grow and now.inode == seen.inode and now.size >= seen.size
    if (now != seen and not grown) or len(data) != stop - start:
        raise GoneError(path)
    return bytes(data)
