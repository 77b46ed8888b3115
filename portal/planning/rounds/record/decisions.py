"""A planning's decisions: a column a figure, a job a row, in the order of the queue; stored as differences (`frames`).

Each job's figures (rank, latency ratio, age, reason, array, side, turn, binding node) are packed as numbers; placements,
windows, shares and reservations stand in a small JSON head. A job's figures and candidates are rows of their own
(`portal.planning.rounds.record.explanations`). A planning's bytes follow those of the planning before, back to a key frame:
`keyframe` is the number of the planning that has it, and null where the frame stands alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from portal.planning.rounds.models import Planning
from portal.planning.rounds.record.frames import LONGEST, Frame, FrameError, frame_head, frame_pack, frame_read
from portal.planning.rounds.record.packing import COLUMNS, REASONS, RESULTS, SIDES, Columns, columns_of, head_of
from scheduler.explaining.places import queue_of

if TYPE_CHECKING:
    from scheduler.model import Plan

log = logging.getLogger(__name__)


class Decisions:
    """A planning's decisions, read back. `columns` are numpy arrays as `COLUMNS` names them, 0 or NaN for none."""

    def __init__(self, head: Mapping[str, Any], columns: Mapping[str, np.ndarray], frame: Frame | None = None) -> None:
        self.head, self.columns, self.frame = head, columns, frame
        self.jobs = columns["job"]

    def __len__(self) -> int:
        return len(self.jobs)

    def find(self, job_id: int) -> int | None:
        """Return the place of a job, or None when this planning did not know it."""
        found = np.flatnonzero(self.jobs == job_id)
        return int(found[0]) if len(found) else None

    @cached_property
    def following(self) -> np.ndarray:
        """Return the places of the jobs that go on waiting in a queue, next first, those of all queues side by side.

        The window's jobs stand in the order in which they were picked, then the others by rank.
        """
        at = self.columns
        waiting = np.flatnonzero((at["rank"] > 0) & (at["result"] == RESULTS.index("waiting")) & (at["eligible"] > 0))
        outside = at["side"][waiting] == SIDES.index("outside")
        return waiting[np.lexsort((at["rank"][waiting], at["turn"][waiting], outside))]

    @cached_property
    def order(self) -> dict[str, np.ndarray]:
        """Return per array the places of the jobs that go on waiting in its queue, next first."""
        arrays = self.columns["array"][self.following]
        return {word: self.following[arrays == code] for code, word in enumerate(self.head["arrays"]) if word}

    @cached_property
    def nowhere(self) -> np.ndarray:
        """Return the places of the eligible jobs that stand in no queue: no node could hold them as things are."""
        at = self.columns
        return np.flatnonzero((at["rank"] == 0) & (at["result"] == RESULTS.index("waiting")) & (at["eligible"] > 0))

    def ahead(self, place: int) -> int | None:
        """Return how many waiting jobs stand before this one in its array; None when it stands in none."""
        array = self.head["arrays"][self.columns["array"][place]]
        found = np.flatnonzero(self.order.get(array, np.empty(0)) == place)
        return int(found[0]) if len(found) else None

    def queue(self, array: str) -> str:
        """Return the queue that an array's jobs stand in, as `scheduler.explaining.places.QUEUES` names it."""
        return queue_of(array, {each["array"]: each["capacity"] for each in self.head["windows"]})

    def standing(self, place: int) -> dict[str, Any] | None:
        """Return `{"queue", "place", "queue_length"}` of a job that goes on waiting in a queue; None for others."""
        ahead = self.ahead(place)
        if ahead is None:
            return None
        array = self.head["arrays"][self.columns["array"][place]]
        return {"queue": self.queue(array), "place": ahead + 1, "queue_length": len(self.order[array])}

    def where(self, place: int | None) -> dict[str, Any]:
        """Return `queue, place, queue_length, ahead` of a job that goes on waiting in a queue; None in each for others."""
        standing = None if place is None else self.standing(place)
        if standing is None:
            return dict.fromkeys(("queue", "place", "queue_length", "ahead"))
        return {**standing, "ahead": standing["place"] - 1}

    def considered(self, array: str) -> dict[str, int]:
        """Return how many jobs of an array the planning considered, and how many of them it started."""
        at = self.columns
        inside = (at["array"] == self.head["arrays"].index(array)) & (at["side"] != SIDES.index("outside"))
        if self.window(array):
            inside &= at["turn"] > 0  # a promised job is started ahead of the window and has no turn in it
        started = inside & (at["result"] == RESULTS.index("placed"))
        return {"considered": int(np.count_nonzero(inside)), "started": int(np.count_nonzero(started))}

    def window(self, array: str) -> dict[str, Any] | None:
        return next((each for each in self.head["windows"] if each["array"] == array), None)

    def share(self, tenant_id: int, resource: str) -> dict[str, Any] | None:
        found = (each for each in self.head["shares"] if (each["tenant"], each["resource"]) == (tenant_id, resource))
        return next(found, None)

    def entry(self, place: int) -> dict[str, Any]:
        """Return one decision with plain values; figures are not part of it."""
        at = {name: column[place].item() for name, column in self.columns.items()}
        ratio, age = (None if np.isnan(value) else value for value in (at["latency_ratio"], at["age_s"]))
        return {
            "job": at["job"],
            "result": RESULTS[at["result"]],
            "reason": REASONS[at["reason"]] or None,
            "rank": at["rank"] or None,
            "array": self.head["arrays"][at["array"]] or None,
            "side": SIDES[at["side"]] or None,
            "turn": at["turn"] or None,
            "latency_ratio": ratio,
            "wait_s": None if ratio is None or age is None else ratio * age,
            "age_s": age,
            "age_source": self.head["sources"][at["source"]],
            "inside_window": SIDES[at["side"]] in {"front", "backfill"},
            "eligible": bool(at["eligible"]),
            "placement": self.head["placements"].get(str(at["job"])),
        }


EMPTY = Decisions(
    {"arrays": [""], "sources": [""], "windows": [], "shares": [], "reservations": [], "placements": {}},
    {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()},
)


def decisions_of(made: Plan) -> Decisions:
    """Return a plan's decisions as those that are read back: of one that is not stored."""
    known = columns_of(made.decisions)
    details = np.zeros(len(made.decisions), COLUMNS["detail"])
    return Decisions(head_of(made, known.arrays, known.sources), known.values | {"detail": details})


def decisions_read(planning: Planning | None) -> Decisions:
    """Return a planning's decisions; nothing for one that failed before it had any, or for None.

    One query where frames before it are not in memory. Raises FrameError where they cannot be read; see `decisions_or_none`.
    """
    packed = bytes(planning.decisions) if planning is not None else b""
    if planning is None or not packed:
        return EMPTY
    if (known := _recent.get(packed)) is not None:
        return known
    if planning.keyframe is None:
        frame_head(packed, planning.number)  # its error names the planning
        return _kept(packed, frame_read(packed, None))
    rows = Planning.objects.filter(number__gte=planning.keyframe, number__lt=planning.number)
    stored = dict(rows.values_list("number", "decisions"))
    chain, known = [packed], None
    while (number := frame_head(chain[-1], planning.number)[0].get("before")) is not None and known is None:
        if number not in stored:
            raise FrameError(planning.number, f"it follows planning {number}, which is gone")
        earlier = bytes(stored[number])
        known = _recent.get(earlier)
        chain.append(earlier)
    frame = known.frame if known is not None else frame_read(chain[-1], None)
    for each in reversed(chain[1:-1]):
        frame = frame_read(each, frame)
    return _kept(packed, frame_read(packed, frame))


def decisions_before(number: int) -> Decisions:
    """Return the decisions of the last applied planning before this number, as `decisions_or_none`. One query, and that of it."""
    last = Planning.objects.filter(status=Planning.Status.APPLIED, number__lt=number).order_by("-number")
    return decisions_or_none(last.only("number", "keyframe", "decisions").first())


def decisions_or_none(planning: Planning | None) -> Decisions:
    """Return the same, and none at all where they cannot be read, which the log tells.

    For callers that go on without: the next planning, whose record then begins anew, and the pages of the present.
    """
    try:
        return decisions_read(planning)
    except FrameError as error:
        log.warning("the decisions of planning %s cannot be read: %s", planning and planning.number, error.why)
        return EMPTY


RECENT = 4
_recent: dict[bytes, Decisions] = {}
"""The last few that were read or packed: a page, its fragments and the next planning ask for the same ones."""


def _kept(packed: bytes, frame: Frame) -> Decisions:
    columns = {name: frame.jobs[frame.rows] if name == "job" else frame.columns[name][frame.rows] for name in COLUMNS}
    read = Decisions(frame.head, columns, frame)
    _recent.pop(packed, None)
    _recent[packed] = read
    for old in list(_recent)[:-RECENT]:
        _recent.pop(old, None)  # another thread may have been quicker
    return read


class Packed(NamedTuple):
    """`bytes` go to `Planning.decisions`, `keyframe` to the column of that name; `read`: the columns that reading them gives."""

    bytes: bytes
    keyframe: int | None
    read: Decisions


def decisions_pack(
    made: Plan,
    details: Mapping[int, int] | None = None,
    columns: Columns | None = None,
    *,
    number: int = 0,
    before: Decisions | None = None,
) -> Packed:
    """Return all decisions of a plan in one value, with its windows, shares and reservations.

    `details`: of the jobs whose detail in force is stored, the mark of its figures; `columns`, where they are made already;
    `before`: those of the last applied planning, as `decisions_read` gives them.
    """
    known, arrays, sources = columns or columns_of(made.decisions)
    stored = details or {}
    marks = np.fromiter((stored.get(job, 0) for job in known["job"].tolist()), COLUMNS["detail"], len(known["job"]))
    last = before.frame if before is not None else None
    packed, frame = frame_pack(
        known | {"detail": marks},
        {**head_of(made, arrays, sources), "last": RESULTS.index("invalid")},
        number=number,
        now_s=made.now_s,
        before=last if last is not None and last.depth + 1 < LONGEST else None,
    )
    return Packed(packed, frame.key if frame.depth else None, _kept(packed, frame))
