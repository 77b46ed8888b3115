"""A progress bar for each task, on a terminal only: a log should not contain bars."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from portal.pages.laboratory.run.parallel import Watch


@contextmanager
def progress_bars() -> Iterator[Callable[[Sequence[str]], Watch]]:
    """Give a function that makes a `Watch` from the tasks' labels. The bars are drawn on stderr."""
    console = Console(stderr=True)
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )

    def watch_for(labels: Sequence[str]) -> Watch:
        bars = [shown.add_task(label, total=1.0) for label in labels]

        def watch(fractions: Sequence[float]) -> None:
            for bar, fraction in zip(bars, fractions, strict=True):
                shown.update(bar, completed=fraction)

        return watch

    with shown:
        yield watch_for
