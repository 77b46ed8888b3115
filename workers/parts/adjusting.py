"""Gives a running part a longer time limit, other cores, or another grant of a shared GPU's memory.

An order about cores is journalled, handed to the shim, and acknowledged once it holds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from workers.portal_client import Backoff
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from workers.parts.part import Part
    from workers.parts.tools import Tools
    from workers.protocol.wire import Wanted

MOST_CORES = 65536
FIRST_LOOK_S, LAST_LOOK_S = 0.02, 1.0
STARTED = frozenset({"starting", "running"})


class Adjusting:
    """Follows the portal's orders, one task a part. A part that has not started gets its order when it has."""

    def __init__(self, tools: Tools, spawn: Callable[[str, Coroutine[Any, Any, None]], object]) -> None:
        self._tools = tools
        self._spawn = spawn
        self._busy: set[str] = set()
        self._limits: dict[str, float] = {}
        self._limits_told: dict[str, float] = {}

    def want(self, part: Part, wanted: Wanted) -> None:
        """Take note of the cores that the newest list names for the part. The same order again changes nothing."""
        self._limit_note(part, wanted.get("time_limit_s"))
        self._grant_note(part, wanted.get("gpu_memory_mib"))
        order = _order(wanted)
        if order is None or not part.live or (part.cores_order is None and order["sequence"] == 0):
            return
        if order != part.cores_order:
            part.cores_order, part.cores_sequence = order, -1
            self._tools.journal.save(part)
        self.follow(part)

    def follow(self, part: Part) -> None:
        """See to it that the part's last order holds: after an order, when it starts, and when a new agent adopts it."""
        if part.phase in STARTED and self._limits.get(part.key) != self._limits_told.get(part.key):
            self._spawn(part.key, self._limit_tell(part, self._limits[part.key]))
        order = part.cores_order
        open_order = order is not None and part.cores_sequence != order["sequence"]
        if open_order and part.phase in STARTED and part.key not in self._busy:
            self._busy.add(part.key)
            self._spawn(part.key, self._follow(part))

    def _limit_note(self, part: Part, limit_s: object) -> None:
        if not part.live:
            self._limits.pop(part.key, None)
            self._limits_told.pop(part.key, None)
        elif isinstance(limit_s, int | float) and not isinstance(limit_s, bool) and limit_s > 0:
            self._limits[part.key] = limit_s
            self.follow(part)

    def _grant_note(self, part: Part, mib: object) -> None:
        """Hold a part that shares a GPU to its present grant of memory."""
        if type(mib) is int and mib > 0 and part.live and part.gpu_memory_mib not in (None, mib):
            part.gpu_memory_mib = mib
            self._tools.journal.save(part)
            log.info("GPU memory granted anew", **part.name, gpu_memory_mib=mib)

    async def _limit_tell(self, part: Part, limit_s: float) -> None:
        directory = self._tools.journal.directory(part)
        try:
            await self._tools.on_files(part, lambda: self._tools.engine.limit(directory, limit_s=limit_s))
        except OSError as error:  # a full disk: again with the next list
            self._tools.problems.note(f"limit {part.key}", f"Its time limit cannot be changed: {error}.")
        else:
            self._limits_told[part.key] = limit_s
            self._tools.problems.clear(f"limit {part.key}")

    async def _follow(self, part: Part) -> None:
        looks = Backoff(FIRST_LOOK_S, LAST_LOOK_S)
        ordered: dict[str, Any] | None = None
        while part.live and (order := part.cores_order) and part.cores_sequence != order["sequence"]:
            try:
                if order != ordered:
                    await self._order(part, order)
                    ordered, looks = order, Backoff(FIRST_LOOK_S, LAST_LOOK_S)
                await self._take(part, order)
            except OSError as error:  # a full disk: tried again
                self._tools.problems.note(f"cores {part.key}", f"Its cores cannot be changed: {error}.")
                ordered = None
            await asyncio.sleep(looks.next_s())
        self._busy.discard(part.key)

    async def _order(self, part: Part, order: dict[str, Any]) -> None:
        directory = self._tools.journal.directory(part)
        await self._tools.on_files(part, lambda: self._tools.engine.cores(directory, **order))
        log.info("cores ordered", **part.name, **{**order, "cores": len(order["cores"])})

    async def _take(self, part: Part, order: dict[str, Any]) -> None:
        held = await self._tools.on_files(part, self._tools.engine.cores_held, self._tools.journal.directory(part))
        if held is None or (held["sequence"], held["cores"]) != (order["sequence"], order["cores"]):
            return
        part.cores, part.cores_sequence = order["cores"], order["sequence"]
        self._tools.journal.save(part)
        self._tools.reporter.wake()
        self._tools.problems.clear(f"cores {part.key}")
        if not held["settled"]:
            said = f"Job {part.job} keeps binding itself to cores that it was not given; this node cannot keep it from that."
            self._tools.problems.note(f"cores {part.key}", said)


def _order(wanted: Wanted) -> dict[str, Any] | None:
    """Return the order of a listed part; None when the list has none that can be followed."""
    cores, sequence = wanted.get("cores"), wanted.get("cores_sequence")
    if not isinstance(cores, list) or type(sequence) is not int or not cores:
        return None
    if not all(type(core) is int and 0 <= core < MOST_CORES for core in cores):
        return None
    share = wanted.get("share", 1.0)
    if type(share) not in (int, float) or not 0 < share <= 1:
        return None
    return {"sequence": sequence, "cores": cores, "share": share}
