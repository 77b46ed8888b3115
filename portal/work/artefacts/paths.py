"""Check an artefact's path: it must unpack on any machine, and be the name that it seems to be."""

from __future__ import annotations

import unicodedata

MOST_BYTES, MOST_NAME_BYTES, DEEPEST = 1024, 255, 32
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def path_problem(path: str) -> str | None:
    """Return why no artefact can have this path; None where it can."""
    names = path.split("/")
    try:
        if len(path.encode()) > MOST_BYTES or any(len(name.encode()) > MOST_NAME_BYTES for name in names):
            return f"its path is longer than {MOST_BYTES} bytes, or a name in it than {MOST_NAME_BYTES}"
    except UnicodeEncodeError:
        return "its name is not UTF-8 text"
    if len(names) > DEEPEST:
        return f"it lies more than {DEEPEST} folders deep"
    if any(name in {"", ".", ".."} for name in names):
        return "its path has an empty name, . or .."
    if "\\" in path or any(unicodedata.category(char) in _HIDDEN for char in path):
        return "its path has a backslash or a character that cannot be seen"
    return None


def path_shown(path: str) -> str:
    """Return a path for a person: each character that cannot be seen is written as Python writes it; of long ones both ends."""
    shown = "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _HIDDEN else char for char in path
    )
    return shown if len(shown) <= 300 else f"{shown[:149]}\N{HORIZONTAL ELLIPSIS}{shown[-150:]}"


def is_at_or_below(path: str, above: str) -> bool:
    """Say whether a path is `above`, or lies below it; "" is above all."""
    return not above or path == above or path.startswith(above.rstrip("/") + "/")
