"""Tables as CSV for spreadsheets: a text that one would read as a formula is made harmless, numbers stay numbers."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield each row as a line; None is an empty cell."""
    line = csv.writer(_Passed())
    for row in rows:
        yield line.writerow([_defused(cell) for cell in row])


class _Passed:
    """The file of the CSV writer: `writerow` returns the line."""

    @staticmethod
    def write(text: str) -> str:
        return text


def _defused(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
