"""The curves of several files of one job together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from portal.work.previews.curves.events import events_read
from portal.work.previews.curves.points import MOST_BLOCKS, Points, blocks, is_sampled
from portal.work.previews.shown import LINES, Unreadable, holds_curves
from portal.work.previews.texts import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from portal.work.previews.shown import Source


STEPS = ("step", "global_step", "iteration", "iter", "epoch")
MOMENTS = ("time", "timestamp", "wall_time", "_timestamp", "ts")
TIMES = {*MOMENTS, "_runtime"}
LINE_BYTES = 16 * 1024
"""A longer line is counted as damaged and not read."""
MOST_NAMES_A_LINE = 2000


def lines_read(source: Source, points: Points, *, most: int, prefix: str = "") -> None:
    """Add the points of a file. A line that cannot be read is counted, and those after it are read."""
    points.thinned |= is_sampled(source, most)
    carry = b""
    for number, (joined, data) in enumerate(blocks(source, most)):
        *whole, rest = ((carry if joined else b"") + data).split(b"\n")
        if not joined and number:
            whole = whole[1:]
        for line in whole:
            _line(line, points, prefix)
        carry = rest[: LINE_BYTES + 1]
    if carry.rstrip().endswith(b"}"):  # the last line may be half written
        _line(carry, points, prefix)


def _line(line: bytes, points: Points, prefix: str) -> None:
    if not line.strip() or not points.may_read():
        return
    try:
        record = parsed(line, strict=False) if len(line) <= LINE_BYTES else None
    except Unreadable:
        record = None
    if not isinstance(record, dict):
        points.damaged += 1
        return
    named = next((name for name in STEPS if _is_number(record.get(name))), None)
    longest = max((len(curve.steps) for curve in points.curves.values()), default=0)
    step = _float(record[named]) if named else float(longest)
    at = next((_float(record[name]) for name in MOMENTS if _is_number(record.get(name))), None)
    for taken, (name, value) in enumerate(_numbers(record, named)):
        if taken >= MOST_NAMES_A_LINE:
            return
        points.add(prefix + name, step, value, at)


def _numbers(record: dict[str, Any], named: str | None) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line, those one level deeper as `outer/inner`."""
    for name, value in record.items():
        if not name or name == named or name in TIMES:
            continue
        if _is_number(value):
            yield name, _float(value)
        elif isinstance(value, dict):
            yield from ((f"{name}/{inner}", _float(each)) for inner, each in value.items() if _is_number(each))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


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


FIRST_NAMES = ("loss", "acc", "reward", "top", "lr")


def curves_told(sources: Sequence[Source]) -> dict[str, Any]:
    points = points_of(sources)
    series, times = {}, {}
    for name in sorted(points.curves, key=rank):
        steps, values = points.curves[name].thinned()
        series[name] = [steps, [None if value is None else float(f"{value:.6g}") for value in values]]
        known = [points.curves[name].times.get(step) for step in steps]
        if None not in known:
            times[name] = known
    return {"series": series, "times": times, "notes": _notes(points)}


def rank(name: str) -> tuple[int, str]:
    """Put what people look at first before the rest."""
    lower = name.lower()
    return next((place for place, word in enumerate(FIRST_NAMES) if word in lower), len(FIRST_NAMES)), name


def _notes(points: Points) -> list[str]:
    notes = []
    if points.others:
        notes.append(f"{len(points.others)} more names are not drawn.")
    if points.not_finite:
        notes.append(f"{points.not_finite} values were not finite (NaN or infinite): gaps.")
    if points.damaged:
        notes.append(f"{points.damaged} lines or records could not be read.")
    if points.thinned:
        notes.append("The files are long: not every point was read.")
    return notes
