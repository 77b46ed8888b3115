"""Rows as aligned text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WIDE = 48
"""A longer cell moves the rest of its own line only: one long name pushes no other line apart."""


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the rows aligned: words left, numbers right."""
    cells = [[cell(value) for value in row] for row in rows]
    numeric = [any(isinstance(row[n], (int, float)) for row in rows) for n in range(len(columns))]
    wide = [[wide_of(text) for text in row] for row in [list(columns), *cells]]
    widths = [max(each for row in wide if (each := row[n]) <= MOST_WIDE or row is wide[0]) for n in range(len(columns))]
    lines = [
        "  ".join(
            " " * (width - own) + text if right else text + " " * (width - own)
            for text, width, own, right in zip(line, widths, owns, numeric, strict=True)
        ).rstrip()
        for line, owns in zip([list(columns), *cells], wide, strict=True)
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return printable(str(value))


def printable(text: str) -> str:
    """Return text as it can be shown here: a control character becomes a question mark, a letter that is not known its number."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    known = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(known, "backslashreplace").decode(known)


def wide_of(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
