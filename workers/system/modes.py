"""Sets the modes of our files right: Landlock keeps a job from reading our files, not from changing their modes (chmod)."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DIRECTORY, _FILE = 0o700, 0o600


def put_right(paths: Iterable[Path]) -> list[Path]:
    """Let the owner use these directories and plain files again, in this order; return those that were changed."""
    closed = []
    for path in paths:
        try:
            mode = path.lstat().st_mode
            needed = _DIRECTORY if stat.S_ISDIR(mode) else _FILE if stat.S_ISREG(mode) else 0
            if mode & needed != needed:
                path.chmod(needed)
                closed.append(path)
        except OSError:  # gone meanwhile, or not ours
            continue
    return closed


def entries(*directories: Path) -> Iterable[Path]:
    """Yield each directory, then its entries. The entries are read after the caller has set the directory's mode right."""
    for directory in directories:
        yield directory
        try:
            yield from sorted(directory.iterdir())
        except OSError:
            continue
