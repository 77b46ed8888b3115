"""Sends reports and receives leases in one exchange: at once when something changed, else once a period."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from workers.protocol.names import part_key, part_name
from workers.system import log
from workers.system.procs import boottime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workers.engines.process import ProcessEngine
    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.parts.problems import Problems
    from workers.portal_client import Portal
    from workers.protocol.wire import DiskRoom, Health, Held, PartName, Report, ReportAnswer, ReportBody, Wanted


MOST_ENTRIES = 500
"""The most entries in each list of one message (docs/agent-protocol.md)."""


class Reporter:
    """Sends the journal's reports. `on_stop` hears of parts to stop, `on_settled` of each answered report."""

    def __init__(
        self, *, portal: Portal, journal: Journal, engine: ProcessEngine, problems: Problems, boot_id: str
    ) -> None:
        self._problems = problems
        self._portal = portal
        self._journal = journal
        self._engine = engine
        self._boot_id = boot_id
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self.leased_until: dict[str, float] = {}
        # By key: when the portal last answered a report of the part (seconds since boot).
        self.told_at: dict[str, float] = {}
        # By key: ends of wanted parts whose name belongs to another job in this node's journal.
        self.disowned: dict[str, Report] = {}
        self.disk: DiskRoom | None = None
        self.health: Callable[[], Health] | None = None
        self.ports: Callable[[Path], list[int]] | None = None
        self.on_stop: Callable[[Part], None] = lambda _: None
        self.on_settled: Callable[[Part], None] = lambda _: None

    def wake(self) -> None:
        """Have the next exchange begin now, because something changed."""
        self._changed.set()

    async def wait(self, period_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period_s):  # wait_for may swallow a cancellation in Python 3.11
                await self._changed.wait()

    async def exchange(self) -> None:
        """Send all reports, in several messages when they are many.

        A lease counts from the moment before its message was sent, so it never ends later than the portal thinks.
        """
        async with self._one_at_a_time:
            self._changed.clear()
            parts = list(self._journal.parts.values())
            # A dropped part is named too until it is dead: the portal hears of all that runs here.
            holding = [p for p in parts if p.live and p.phase != "claimed"]
            # Were a report sent before it is on disk, and the agent killed then, the next agent could give its number to another.
            on_disk = [p for p in parts if p.key not in self._journal.unsaved]
            reports = [*self.disowned.values(), *(report for p in on_disk for report in p.reports)]
            try:
                for first in range(0, max(len(reports), len(holding), 1), MOST_ENTRIES):
                    piece = slice(first, first + MOST_ENTRIES)
                    await self._exchange(reports[piece], [self._name_held(p) for p in holding[piece]])
            except BaseException:
                self._changed.set()  # it is still to be sent
                raise

    async def _exchange(self, reports: list[Report], holding: list[Held]) -> None:
        begun = boottime()
        body: ReportBody = {
            "boot_id": self._boot_id,
            "reports": reports,
            "holding": holding,
            "problems": self._problems.current(),
        }
        if self.disk is not None:
            body["disk"] = self.disk
        if self.health is not None:
            body["health"] = self.health()
        self._take(await self._portal.report(body), begun)

    def _name_held(self, part: Part) -> Held:
        """Name a part that is here, and the order about its cores that holds: none while one is open.

        A part that an older agent began has a shim that follows no such order, and its record names no cores.
        """
        held: Held = {"attempt": part.attempt, "epoch": part.epoch, "rank": part.rank}
        if part.cores_sequence >= 0 and part.cores:
            held["cores_sequence"] = part.cores_sequence
        if self.ports is not None:
            held["ports"] = self.ports(self._journal.directory(part)) if part.phase == "running" else []
        return held

    def _take(self, answer: ReportAnswer, begun: float) -> None:
        for refused in answer["refused"]:
            log.warning("report refused", **part_name(refused), sequence=refused["sequence"], code=refused["code"])
        for answered in [*answer["accepted"], *answer["refused"]]:
            self._settle(answered, answered["sequence"])
        for lease in answer["leases"]:
            part = self._journal.parts.get(part_key(lease))
            if part is not None and part.live:
                self._renew(part, begun + lease["lease_s"])
        for stop in answer["stop"]:
            part = self._journal.parts.get(part_key(stop))
            if part is not None and part.live:
                self.on_stop(part)

    def _settle(self, answered: PartName, sequence: int) -> None:
        if self.disowned.pop(part_key(answered), None) is not None:
            return
        self.told_at[part_key(answered)] = boottime()
        part = self._journal.parts.get(part_key(answered))
        if part is not None:
            self._journal.settle(part, sequence)
            self.on_settled(part)

    def told_before(self, moment: float) -> set[str]:
        """Return the keys of the parts whose last report was answered before `moment` (seconds since boot)."""
        self.told_at = {key: at for key, at in self.told_at.items() if key in self._journal.parts}
        return {key for key in self._journal.parts if self.told_at.get(key, 0.0) < moment}

    def disown(self, wanted: Wanted) -> None:
        """Report a wanted part as lost, because its name belongs to another job here."""
        self.disowned[part_key(wanted)] = {
            **part_name(wanted),  # type: ignore[typeddict-item] # it names a part and holds no commit
            # Larger than any number that the portal can have for this part, so it is not taken for an old report.
            "sequence": int(time.time() * 1000),
            "state": "ended",
            "pid": None,
            "at": time.time(),
            "exit_code": None,
            "signal": None,
            "reason": "lost",
            "overran": False,
            "detail": "this node knows the attempt as one of another job, from a time that is missing in the portal's database",
        }
        self.wake()

    def _renew(self, part: Part, until: float) -> None:
        directory = self._journal.directory(part)
        try:
            self._engine.lease(directory, until=until)
            (directory / "maintenance.json").unlink(missing_ok=True)  # the portal is back: its lease counts again
        except OSError as error:  # only of this part; the other leases are renewed
            self._problems.note(f"lease {part.key}", f"Its lease cannot be renewed: {error}.")
            return
        self._problems.clear(f"lease {part.key}")
        self.leased_until[part.key] = until
