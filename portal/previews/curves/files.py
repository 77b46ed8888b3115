"""Which files hold curves, and the curves of several files of one job together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.previews.curves.events import events_read
from portal.previews.curves.lines import lines_read
from portal.previews.curves.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from portal.previews.source import Source

LINES = ("metrics.jsonl", "metrics.ndjson")
EVENTS = "events.out.tfevents."
MOST_FILES = 8


def holds_curves(name: str) -> bool:
    """True for `metrics.jsonl` and for TensorBoard's event files, in whatever folder."""
    last = name.rpartition("/")[2]
    return last in LINES or last.startswith(EVENTS)


def curve_files(names: Iterable[str]) -> list[str]:
    """Return those of the names that are read together for a job's curves, in the order of reading: by name."""
    return sorted(name for name in names if holds_curves(name))[:MOST_FILES]


def points_of(sources: Sequence[Source]) -> Points:
    """Read the files in the order given. Files of one folder are one run, which went on after a restart.

    Where the files lie in several folders, the folder begins the curve's name.
    """
    points = Points()
    folders = {source.name.rpartition("/")[0] for source in sources}
    for source in sources:
        folder = source.name.rpartition("/")[0]
        read = lines_read if source.name.endswith(LINES) else events_read
        read(source, points, prefix=f"{folder}/" if folder and len(folders) > 1 else "")
    return points
