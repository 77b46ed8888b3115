"""Decisions as the difference to the planning before: a forecast from the jobs' waiting is not stored, only the differences.

A frame holds a planning's decisions by ascending job. A job's latency ratio follows from since when it waits and from its
age, which rarely change; ranks follow from the ratios (or, under another priority, from the ranks before). So a frame says
who came and went, which figures differ from those of the frame before, and which ranks and ratios are not as foretold. A
*key frame* has none before it and says all. Pure: bytes and arrays; who stores them is `portal.planning.rounds.record.decisions`.

Columns of numbers stand as bytes, each as the difference from its forecast. Numbers that differ stand byte by byte, all first
bytes, then all second ones, which packs well.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portal.foundation.errors import BerthError

NEVER = np.iinfo(np.int64).min
MOMENT_ERROR_US, RATIO_ERROR = 2, 5e-4
"""A figure this close to its forecast is not stored: a clock's last digits, and more than three digits of a ratio."""

MOMENT = "moment"
"""Microseconds: since when an eligible job waits (Unix time, less what it waited before); how long another has waited."""


class Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.sizes: dict[str, list[int]] = {}  # name -> [values, places beside them]

    def put(self, name: str, values: np.ndarray, *, delta: bool = False) -> None:
        self.sizes[name] = [len(values), 0]
        self.parts.append(_packed(values, delta=delta))

    def differing(self, name: str, values: np.ndarray, foretold: np.ndarray, *, delta: bool = False) -> np.ndarray:
        """Write the values that are not as foretold; return those that reading gives."""
        differs = _differs(name, values, foretold)
        places = np.flatnonzero(differs)
        made = np.where(differs, values, foretold)
        every = 2 * len(places) > len(values)
        told = made if every else values[places]
        self.sizes[name] = [len(told), 0 if every else len(places)]
        self.parts.append(_packed(told, delta=delta))
        if not every:
            self.parts.append(_packed(places, delta=True))
        return made


class Reader:
    def __init__(self, blob: bytes, sizes: Mapping[str, list[int]]) -> None:
        self._blob, self._sizes, self._at = blob, sizes, 0

    def take(self, name: str, dtype: Any, *, delta: bool = False) -> np.ndarray:
        return self._next(self._sizes[name][0], dtype, delta=delta)

    def differing(self, name: str, foretold: np.ndarray, *, delta: bool = False) -> np.ndarray:
        count, placed = self._sizes[name]
        values = self._next(count, foretold.dtype, delta=delta)
        if count == len(foretold) and not placed:
            return values
        made = foretold.copy()
        made[self._next(placed, np.int64, delta=True)] = values
        return made

    def _next(self, count: int, dtype: Any, *, delta: bool) -> np.ndarray:
        dtype = np.dtype(dtype)
        size = count * dtype.itemsize
        raw = np.frombuffer(self._blob, np.uint8, size, self._at).reshape(dtype.itemsize, count)
        self._at += size
        values = np.ascontiguousarray(raw.T).view(dtype).reshape(count)
        return np.cumsum(values, dtype=dtype) if delta else values


def _packed(values: np.ndarray, *, delta: bool) -> bytes:
    if delta:
        values = np.diff(values, prepend=values.dtype.type(0))
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()


def _differs(name: str, values: np.ndarray, foretold: np.ndarray) -> np.ndarray:
    if name == MOMENT:
        told = (values != NEVER) & (foretold != NEVER)
        return (values != foretold) & ~(told & (np.abs(values - foretold) <= MOMENT_ERROR_US))
    if name == "latency_ratio":
        near = np.abs(values - foretold) <= RATIO_ERROR * np.abs(values)
        return ~(near | (np.isnan(values) & np.isnan(foretold)))
    if values.dtype.kind == "f":
        return (values != foretold) & ~(np.isnan(values) & np.isnan(foretold))
    return values != foretold


VERSION = 3
LEVEL = 3
"""zlib's level: at 6 a queue of 100 000 packs a tenth smaller in twice the time."""
LONGEST = 32
"""Frames in a row, the key frame included: the most that are read for one planning's decisions."""
STORED = {
    "eligible": np.uint8,
    "queued": np.uint8,
    MOMENT: np.int64,
    "age_s": np.float64,
    "turn": np.int32,
    "binding": np.uint32,
    "result": np.uint8,
    "reason": np.uint8,
    "array": np.uint8,
    "side": np.uint8,
    "source": np.uint8,
    "detail": np.uint32,
}
WORDS = {"array": "arrays", "source": "sources"}
BY_RATIO, BY_RANK = 0, 1


class FrameError(BerthError):
    """A planning's decisions cannot be read: `why`, for the log. Code decisions_unreadable."""

    def __init__(self, number: int | None, why: str) -> None:
        which = "a planning" if number is None else f"planning {number}"
        detail = (
            f"The decisions of {which} cannot be read any more: what is stored of them is damaged or incomplete. "
            "Its figures are kept, in the list of rounds. "
            f"Up to {LONGEST - 1} that followed it may be lost with it; new ones are not."
        )
        super().__init__("decisions_unreadable", detail, status=410)
        self.number, self.why = number, why


@dataclass(frozen=True)
class Frame:
    """A planning's decisions by ascending job; `rows`: the places of these in the order as decided.

    `columns`: STORED, rank (int32, 0 = none) and latency_ratio (float32, NaN = none). `mark` names the packed bytes,
    `number` the planning, `key` that of its key frame; `depth`: how many frames lie before it.
    """

    jobs: np.ndarray
    columns: Mapping[str, np.ndarray]
    rows: np.ndarray
    head: Mapping[str, Any]
    number: int = 0
    key: int = 0
    depth: int = 0
    mark: int = 0


def frame_pack(
    columns: Mapping[str, np.ndarray], head: Mapping[str, Any], *, number: int, now_s: float, before: Frame | None
) -> tuple[bytes, Frame]:
    """Return the bytes of a planning's decisions, and the frame that reading them gives.

    `columns`: in the order as decided, one row a job and no job twice: job, rank, turn, latency_ratio, age_s, wait_s, ... ;
    `head`: other things to keep (JSON), with the words behind `array` and `source`. A key frame where `before` is None.
    """
    rows = np.argsort(columns["job"], kind="stable")
    jobs, now_us = columns["job"][rows], round(now_s * 1e6)
    known = {name: columns[name][rows] for name in columns}
    known["queued"] = (known["rank"] > 0).astype(np.uint8)
    known[MOMENT] = _moments(known["wait_s"], known["eligible"], now_us)
    told = {**head, **_in_words(known, head, before), **_follows(before, number, now_us)}
    writer = Writer()
    made, way = _write(writer, jobs, known, now_us, before)
    decided = np.argsort(rows, kind="stable")
    if not np.array_equal(_rows(jobs, made, told["last"]), decided):
        writer.put("rows", decided)
    told |= {"way": way, "sizes": writer.sizes}
    packed = zlib.compress(b"".join([json.dumps(told, separators=(",", ":")).encode(), b"\n", *writer.parts]), LEVEL)
    return packed, Frame(jobs, made, decided, told, number, told["key"], told["depth"], zlib.crc32(packed))


def _in_words(known: dict[str, np.ndarray], head: Mapping[str, Any], before: Frame | None) -> dict[str, list[str]]:
    """Write the columns of words in the codes of the frame before; return the words behind them."""
    words = {}
    for name, title in WORDS.items():
        known[name], words[title] = _worded(known[name], head[title], before.head[title] if before else [])
    return words


def _follows(before: Frame | None, number: int, now_us: int) -> dict[str, Any]:
    """Return the head's words on the frame's place among others."""
    return {
        "before": before.number if before else None,
        "mark": before.mark if before else None,
        "version": VERSION,
        "now_us": now_us,
        "number": number,
        "key": before.key if before else number,
        "depth": before.depth + 1 if before else 0,
    }


def _write(
    writer: Writer, jobs: np.ndarray, known: Mapping[str, np.ndarray], now_us: int, before: Frame | None
) -> tuple[dict[str, np.ndarray], int]:
    """Write the jobs that came and went and the unforeseen figures. Return the columns that reading gives,
    and by which way the ranks are foretold: the better one.
    """
    hit, place = _matched(jobs, before)
    if before is not None:
        came = np.zeros(len(before.jobs), bool)
        came[place] = True
        writer.put("gone", np.flatnonzero(~came), delta=True)
    writer.put("came", jobs[~hit], delta=True)
    made = {}
    for name, dtype in STORED.items():
        foretold = _carried(name, dtype, hit, place, before)
        made[name] = writer.differing(name, known[name].astype(dtype), foretold, delta=name == MOMENT)
    old = _carried("rank", np.int32, hit, place, before)
    ranks = [_ranks(made, jobs, now_us, way, old) for way in (BY_RATIO, BY_RANK)]
    way = int(np.argmin([np.count_nonzero(each != known["rank"]) for each in ranks]))
    made["rank"] = writer.differing("rank", known["rank"].astype(np.int32), ranks[way])
    ratios, foretold = known["latency_ratio"].astype(np.float32), _ratios(made, now_us).astype(np.float32)
    made["latency_ratio"] = writer.differing("latency_ratio", ratios, foretold)
    return made, way


def frame_alone(frame: Frame) -> bytes:
    """Return the same decisions as a key frame."""
    moment, now_us = frame.columns[MOMENT], frame.head["now_us"]
    wait_us = np.where(frame.columns["eligible"] > 0, now_us - moment, moment)
    every = {**frame.columns, "job": frame.jobs, "wait_s": np.where(moment == NEVER, np.nan, wait_us / 1e6)}
    decided = {name: values[frame.rows] for name, values in every.items()}
    return frame_pack(decided, frame.head, number=frame.number, now_s=now_us / 1e6, before=None)[0]


def frame_head(packed: bytes, number: int | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the part before the columns, and these; `head["before"]` is the planning of the frame before, if any.

    `number`: of the planning whose they should be. Raises FrameError.
    """
    try:
        raw = zlib.decompress(packed)
        end = raw.index(b"\n")
        return json.loads(raw[:end]), raw[end + 1 :]
    except (zlib.error, ValueError) as error:  # zlib's checksum finds any damage to the packed bytes
        raise FrameError(number, f"{type(error).__name__}: {error}") from error


def frame_read(packed: bytes, before: Frame | None) -> Frame:
    """Return a planning's decisions. FrameError unless `before` is the frame that they were packed after."""
    head, blob = frame_head(packed)
    if head["depth"] and (before is None or before.mark != head["mark"]):
        why = f"planning {head['number']} follows planning {head['before']}, which is another one or gone"
        raise FrameError(head["number"], why)
    before = before if head["depth"] else None
    reader = Reader(blob, head["sizes"])
    stayed = np.empty(0, np.int64)
    if before is not None:
        stays = np.ones(len(before.jobs), bool)
        stays[reader.take("gone", np.int64, delta=True)] = False
        stayed = before.jobs[stays]
    jobs = np.sort(np.concatenate([stayed, reader.take("came", np.int64, delta=True)]))
    hit, place = _matched(jobs, before)
    made: dict[str, np.ndarray] = {}
    for name, dtype in STORED.items():
        made[name] = reader.differing(name, _carried(name, dtype, hit, place, before), delta=name == MOMENT)
    old = _carried("rank", np.int32, hit, place, before)
    made["rank"] = reader.differing("rank", _ranks(made, jobs, head["now_us"], head["way"], old))
    made["latency_ratio"] = reader.differing("latency_ratio", _ratios(made, head["now_us"]).astype(np.float32))
    stored = "rows" in head["sizes"]
    rows = reader.take("rows", np.int64) if stored else _rows(jobs, made, head["last"])
    return Frame(jobs, made, rows, head, head["number"], head["key"], head["depth"], zlib.crc32(packed))


def _moments(wait_s: np.ndarray, eligible: np.ndarray, now_us: int) -> np.ndarray:
    known = np.isfinite(wait_s)
    wait_us = np.round(np.where(known, wait_s, 0.0) * 1e6).astype(np.int64)
    return np.where(known, np.where(eligible > 0, now_us - wait_us, wait_us), NEVER)


def _worded(codes: np.ndarray, words: Sequence[str], old: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the codes in the words of the frame before, with those that are new behind them."""
    every = [*old, *(word for word in words if word not in old)]
    codes_of = np.array([every.index(word) for word in words], np.uint8)
    return (codes_of[codes] if len(codes) else codes), every


def _matched(jobs: np.ndarray, before: Frame | None) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the jobs the frame before has, and the places of these in it."""
    if before is None or not len(before.jobs):
        return np.zeros(len(jobs), bool), np.empty(0, np.int64)
    place = np.minimum(np.searchsorted(before.jobs, jobs), len(before.jobs) - 1)
    hit = before.jobs[place] == jobs
    return hit, place[hit]


def _carried(name: str, dtype: Any, hit: np.ndarray, place: np.ndarray, before: Frame | None) -> np.ndarray:
    values = np.zeros(len(hit), dtype)
    if before is not None:
        values[hit] = before.columns[name][place]
    return values


def _ratios(made: Mapping[str, np.ndarray], now_us: int) -> np.ndarray:
    """Return the latency ratios that waiting and age give; NaN where one is not known."""
    moment = made[MOMENT]
    wait_us = np.where(made["eligible"] > 0, now_us - moment, moment)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((moment == NEVER) | ~(made["age_s"] > 0), np.nan, wait_us / 1e6 / made["age_s"])


def _ranks(made: Mapping[str, np.ndarray], jobs: np.ndarray, now_us: int, way: int, old: np.ndarray) -> np.ndarray:
    """Return the ranks by latency ratio, or those of before with gaps closed and new jobs behind them."""
    ranks, queued = np.zeros(len(jobs), np.int32), np.flatnonzero(made["queued"])
    last = np.where(old[queued] > 0, old[queued], np.iinfo(np.int32).max)
    keys = -_ratios(made, now_us)[queued] if way == BY_RATIO else last
    ranks[queued[np.lexsort((jobs[queued], keys))]] = np.arange(1, len(queued) + 1)
    return ranks


def _rows(jobs: np.ndarray, made: Mapping[str, np.ndarray], last: int) -> np.ndarray:
    """Return the order as decided: the queue, then who took no part by job, then those whose result is `last`."""
    aside = made["rank"] == 0
    return np.lexsort((jobs, made["rank"], aside & (made["result"] == last), aside))
