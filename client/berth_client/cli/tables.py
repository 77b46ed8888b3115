"""Rows as aligned text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the rows aligned: words left, numbers right."""
    cells = [[cell(value) for value in row] for row in rows]
    numeric = [any(isinstance(row[n], (int, float)) for row in rows) for n in range(len(columns))]
    widths = [max(map(len, [column, *(row[n] for row in cells)])) for n, column in enumerate(columns)]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [list(columns), *cells]
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Return a value as the text of one cell. A control character becomes a question mark."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return "".join(char if char.isprintable() else "?" for char in str(value))
