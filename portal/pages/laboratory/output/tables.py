"""A table of results, as text and for a page. No Django here: experiments fill it in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def cell(value: object) -> str:
    """Return the text of a cell: three significant digits, or all digits before the point; `-` for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    size = abs(value)
    if size != 0 and size < 0.001:
        return f"{value:.1e}"
    decimals = next((n for n, bound in enumerate((100, 10, 1)) if size >= bound), 3)
    return f"{value:.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as many as there are columns. All but text and None counts as a number. `note` helps to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Say of each column whether it holds numbers, which stand at its right."""
        return [any(not isinstance(row[n], str | None) for row in self.rows) for n in range(len(self.columns))]

    def text(self) -> str:
        """Return the table as Markdown, aligned so that it is easy to read on a terminal too."""
        lines = [[str(each) for each in self.columns], *([cell(each) for each in row] for row in self.rows)]
        widths = [max(3, *(len(line[n]) for line in lines)) for n in range(len(self.columns))]
        left = [not each for each in self.numeric]
        rule = [
            ("-" * width if is_left else "-" * (width - 1) + ":") for width, is_left in zip(widths, left, strict=True)
        ]

        def line_of(cells: Sequence[str]) -> str:
            padded = (
                text.ljust(width) if is_left else text.rjust(width)
                for text, width, is_left in zip(cells, widths, left, strict=True)
            )
            return f"| {' | '.join(padded)} |"

        parts = [f"### {self.title}", "", line_of(lines[0]), line_of(rule), *map(line_of, lines[1:])]
        return "\n".join([*parts, "", self.note] if self.note else parts) + "\n"
