"""What an experiment is and what it answers with. No Django here: experiments run in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import cell
from portal.pages.laboratory.run.parallel import run_tasks
from research.experiments.kept import kept_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from portal.pages.laboratory.output.tables import Table
    from portal.pages.laboratory.run.parallel import Task, Watch


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
