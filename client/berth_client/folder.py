"""A folder as the files of a job: what lies below it, but what `.berthignore` names. Links are not followed."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from berth_client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

IGNORE_FILE = ".berthignore"
ALWAYS = (".git/", "__pycache__/", ".venv/", IGNORE_FILE)
MOST_BYTES, MOST_FILES = 1024 * 1024, 1000
"""What a description takes of a job's files. What is larger is uploaded."""
MOST_UPLOADED = 10_000


def folder_paths(folder: Path) -> dict[str, Path]:
    """Return {relative name: file}. Raises ClientError when it is no folder, cannot be read, or has too many files."""
    if not folder.is_dir():
        raise ClientError(f"{folder} is no folder.")
    patterns = [*ALWAYS, *_patterns(folder / IGNORE_FILE)]
    try:
        return {name: folder / name for name in _names(folder, patterns)}
    except OSError as error:
        raise ClientError(f"{error.filename} cannot be read: {error.strerror}.") from None


def is_small(paths: Mapping[str, Path]) -> bool:
    """Say whether a description takes these files: they go with the job in one request. Raises ClientError."""
    try:
        return len(paths) <= MOST_FILES and sum(path.stat().st_size for path in paths.values()) <= MOST_BYTES
    except OSError as error:
        raise ClientError(f"{error.filename} cannot be read: {error.strerror}.") from None


def _names(folder: Path, patterns: list[str]) -> Iterator[str]:
    """Yield the relative names of regular files, in order; one more than may be sent suffices."""
    found = 0
    for root, folders, files in os.walk(folder, onerror=_raise):
        here = Path(root).relative_to(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not (Path(root) / name).is_symlink() and not _ignored(here / name, patterns, is_folder=True)
        )
        for name in sorted(files):
            path = Path(root) / name
            if path.is_file() and not path.is_symlink() and not _ignored(here / name, patterns, is_folder=False):
                found += 1
                if found > MOST_UPLOADED:
                    raise ClientError(
                        f"{folder} holds more than {MOST_UPLOADED} files, the most that a job brings. Name what stays behind "
                        f"in {folder / IGNORE_FILE}."
                    )
                yield (here / name).as_posix()


def _raise(error: OSError) -> None:
    raise error


def _patterns(path: Path) -> list[str]:
    """Return the patterns of a `.berthignore`: a line each, as in .gitignore, but without `!` and `**`."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} cannot be read: {error}.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        if pattern.startswith("!") or "**" in pattern:
            raise ClientError(f"{path}, line {number}: {pattern!r}: neither ! nor ** is known here.")
        found.append(pattern)
    return found


def _ignored(name: Path, patterns: list[str], *, is_folder: bool) -> bool:
    """Say whether a pattern names it: by its whole path when it holds a slash, else by its last part, at any depth."""
    for pattern in patterns:
        bare = pattern.rstrip("/")
        if bare != pattern and not is_folder:
            continue
        wanted = bare.lstrip("/").split("/")
        parts = name.parts if "/" in bare else name.parts[-1:]
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False
