"""The folder of programs at the end of each job's PATH: a `python` for nodes that have only `python3`, as Debian's."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from workers.system.files import BrokenFileError, read_bytes, set_aside, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = "programs"
"""Its name below the agent's directory."""
_PYTHON = b"""\
#!/bin/sh
command -v python3 >/dev/null || { echo "python: there is no python3 on this job's PATH. Give the job \
software with Python (an environment, requirements or an image), or ask the operator to install python3 on its node." >&2; \
exit 127; }; exec python3 "$@"
"""
"""The first `python3` of PATH. A link to one would not find the packages of an environment, which stand beside its own name."""
_MODE = 0o755


def programs_make(directory: Path) -> Path:
    """Make the folder below the agent's `directory`, or mend it: everybody may run what is there. Raises OSError."""
    folder = directory / PROGRAMS
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        set_aside(folder)
    folder.mkdir(exist_ok=True)
    folder.chmod(_MODE)
    if not _as_it_was(folder / "python"):
        write_atomic(folder / "python", _PYTHON, mode=_MODE)
    return folder


def _as_it_was(python: Path) -> bool:
    try:
        return read_bytes(python) == _PYTHON and stat.S_IMODE(python.lstat().st_mode) == _MODE
    except (FileNotFoundError, PermissionError, BrokenFileError):
        return False
