"""The curves of several files of one job together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from portal.work.previews.curves.blocks import MOST_BLOCKS
from portal.work.previews.curves.events import events_read
from portal.work.previews.curves.lines import lines_read
from portal.work.previews.curves.names import LINES, holds_curves
from portal.work.previews.curves.points import Points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from portal.work.previews.source import Source

MOST_FILES = 24
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)


def curve_files(names: Iterable[str]) -> list[str]:
    """Return those of the names that are read together for a job's curves, in the order of reading: 2 before 10.

    Of very many the last ones.
    """
    return sorted((name for name in names if holds_curves(name)), key=_in_order)[-MOST_FILES:]


def _run(name: str) -> str:
    """Return the name as the first part of an attempt has it: on several nodes each part has a folder of its own."""
    return name.removeprefix("part-0/")


def _in_order(name: str) -> list[tuple[int, str]]:
    parts = _DIGITS.split(_run(name))
    return [(int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts)]


def points_of(sources: Sequence[Source]) -> Points:
    """Read the files in the order given. Files of one folder are one run, which went on after a restart.

    Where the files lie in several folders, the folder begins the curve's name.
    """
    points = Points()
    most = max(2, MOST_BLOCKS // max(1, len(sources)))
    folders = {_run(source.name).rpartition("/")[0] for source in sources}
    for source in sources:
        folder = _run(source.name).rpartition("/")[0]
        read = lines_read if LINES.match(source.name.rpartition("/")[2]) else events_read
        read(source, points, most=most, prefix=f"{folder}/" if folder and len(folders) > 1 else "")
    return points
