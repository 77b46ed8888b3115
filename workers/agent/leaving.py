"""How an agent leaves with its allocation: it takes no new parts, stops those it has, tells their ends, and signs off.

On a machine of its own an agent that ends leaves its jobs to their shims. A batch system kills all of them a little later, and
nobody would tell the portal: each job would count as running until its lease is over, and the node's GPUs with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING

from workers.agent.allocation import SLURM, closes_ask, kill_wait_ask
from workers.portal_client import PortalAwayError, PortalRefusedError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.agent.health import NodeHealth
    from workers.agent.settings import AgentSettings
    from workers.parts.journal import Journal
    from workers.parts.parts import Parts
    from workers.parts.reporting import Reporter
    from workers.portal_client import Portal

LOOK_S, TOLD_S, TOLD_SHARE = 0.2, 5.0, 0.4
"""`TOLD_S`: of the time to leave, kept for killing, for the last reports and for signing off; `TOLD_SHARE` of it at most."""
KILL_EARLY_S = 1.0
ASK_AGAIN_S = 300.0
ENDED, ENDS = "its allocation was ended", "its allocation ends"


class Leaving:
    """Waits for SIGTERM or for the end of the allocation, then leaves."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        portal: Portal,
        journal: Journal,
        reporter: Reporter,
        health: NodeHealth,
        boot_id: str,
        closes_at: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._portal, self._journal = settings, portal, journal
        self._reporter, self._health, self._boot_id, self._now = reporter, health, boot_id, now
        self._killed_in_s = math.inf
        self.closes_at = closes_at
        """From when on it stops its parts, Unix seconds, as Slurm said last; None: no end is known."""
        self.told = asyncio.Event()
        """Set at SIGTERM."""

    async def wait(self) -> str:
        """Return why to leave, when it is time. An end may be moved, so Slurm is asked again, also when it seems reached."""
        system, leave_s = self._settings.allocation, self._settings.leave_s
        if system == SLURM:
            self._killed_in_s = (await asyncio.to_thread(kill_wait_ask) or math.inf) - KILL_EARLY_S
        while not self.told.is_set():
            if system == SLURM:
                self.closes_at = await asyncio.to_thread(closes_ask, system, leave_s) or self.closes_at
            left_s = ASK_AGAIN_S if self.closes_at is None else self.closes_at - self._now()
            if left_s <= 0:
                return ENDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, ASK_AGAIN_S) if system == SLURM else None):
                    await self.told.wait()
        return ENDED

    async def leave(self, why: str, parts: Parts) -> None:
        """Stop all parts, tell their ends, and sign off; within `leave_s`, or before Slurm kills after its SIGTERM.

        A part that still lives then keeps its lease.
        """
        within_s = max(KILL_EARLY_S, min(self._settings.leave_s, self._killed_in_s if why == ENDED else math.inf))
        until, last_s = self._now() + within_s, min(TOLD_S, TOLD_SHARE * within_s)
        log.info("leaving", why=why, parts=len(self._open()))
        self._health.note(
            "node", "allocation", "drain", f"It leaves: {why}.", "Nothing: a new allocation brings it back."
        )
        self._reporter.wake()
        while self._open() and self._now() < until:
            parts.stop_all(grace_s=max(0.0, until - self._now() - last_s), detail=why)
            await asyncio.sleep(LOOK_S)
        if unsent := [part.key for part in self._journal.parts.values() if part.live or part.reports]:
            log.error("left before all ends were reported", parts=unsent)
            return
        try:
            async with asyncio.timeout(TOLD_S):
                await self._portal.leave({"boot_id": self._boot_id, "detail": why})
        except (TimeoutError, PortalAwayError, PortalRefusedError) as error:
            log.error("not signed off", reason=str(error) or "the portal does not answer")
            return
        log.info("signed off")

    def _open(self) -> list[str]:
        """Return the keys of the parts that live, or of which the portal lacks the end or the last of the log."""
        return [part.key for part in self._journal.parts.values() if part.phase != "closed"]
