"""What an experiment is and what it answers with. No Django here: experiments run in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portal.laboratory.run.kept import kept_in
from portal.laboratory.run.parallel import run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from portal.laboratory.run.parallel import Task, Watch


class ExperimentError(Exception):
    """An experiment that cannot be run as asked; a sentence with its remedy."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of ours, with the paper's where it has one: written `ours (paper; ours/paper)`."""

    ours: float | None
    paper: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None or not self.paper else self.ours / self.paper

    def __str__(self) -> str:
        if self.paper is None:
            return cell(self.ours)
        return f"{cell(self.ours)} ({cell(self.paper)}; {cell(self.ratio)})"


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
    """Rows of cells: text, numbers or `Figure`s, as many as there are columns. `note` says what must be known to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def text(self) -> str:
        """Return the table as Markdown, aligned so that it is easy to read on a terminal too."""
        lines = [[str(each) for each in self.columns], *([cell(each) for each in row] for row in self.rows)]
        widths = [max(3, *(len(line[n]) for line in lines)) for n in range(len(self.columns))]
        left = [not any(isinstance(row[n], int | float | Figure) for row in self.rows) for n in range(len(widths))]
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


@dataclass(frozen=True, slots=True)
class Result:
    """An experiment's answer. `json` is the same for the same input and seeds, but for `solve_*` and `*_wall_s` (wall times)."""

    name: str
    tables: tuple[Table, ...]
    json: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. `data`: the folder of public traces (sia/, openb/ ...), or None; `quick`: a smaller instance, said in the note.

    `keep`: a folder where the answers of finished simulations stay for the next time, or None. `watch`: shows the progress
    of `parallel.run_tasks`; it may raise to stop it. `lists`, `trace`: files in place of the experiment's own, where it
    `takes` them.
    """

    seeds: int = 1
    processes: int = 1
    data: Path | None = None
    quick: bool = False
    keep: Path | None = None
    lists: Sequence[Path] = ()
    trace: Path | None = None
    say: Callable[[str], None] = field(default=lambda _: None)
    watch: Callable[[Sequence[str]], Watch] | None = None

    def run_all(self, tasks: Sequence[Task]) -> list[Any]:
        """Return the tasks' answers in their order. They run in `processes` processes, and the progress is shown."""
        watch = None if self.watch is None else self.watch([task.label for task in tasks])
        if self.keep is not None:
            tasks = kept_in(self.keep, tasks)
        return run_tasks(tasks, processes=self.processes, watch=watch)

    def folder(self, name: str) -> Path:
        """Return the folder `data/name`. Raises ExperimentError when it is not there."""
        if self.data is None:
            raise ExperimentError(f"This experiment reads public data: give --data DIR, the folder that holds {name}/.")
        if not (self.data / name).exists():
            raise ExperimentError(f"{self.data} holds no {name}/: give the folder that does with --data DIR.")
        return self.data / name


@dataclass(frozen=True, slots=True)
class Experiment:
    """`run` regenerates the paper's figures; `calibrate`, where there is one, shows how the workload was fixed on the rival.

    `takes`: those of the options `lists` and `trace` that it reads.
    """

    name: str
    meaning: str
    run: Callable[[Options], Result]
    calibrate: Callable[[Options], Result] | None = None
    takes: frozenset[str] = frozenset()
