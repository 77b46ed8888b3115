"""The agent's contact with the portal: it tries again after a pause, and logs both ends of an absence."""

from __future__ import annotations

import asyncio
import time
import traceback
from typing import TYPE_CHECKING

from workers.portal_client import Backoff, PortalAwayError, PortalFullError, PortalRefusedError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from workers.parts.problems import Problems

_FIRST_PAUSE_S = 0.2
_FULL_TOLD_S = 300.0
_REVOKED_TIMES = 6
"""How many times longer the pause is while the portal refuses the node's token."""


class Contact:
    """Repeats the agent's steps. `on_away` is called when the portal does not answer.

    `on_boot_changed` is awaited when the portal does not know that the machine was started again.
    """

    def __init__(self, *, problems: Problems, retry_max_s: float, token_file: Path) -> None:
        self._problems = problems
        self._retry_max_s = retry_max_s
        self._token_file = token_file
        self._revoked = False
        self._away_since: float | None = None
        self._full_told_at = -_FULL_TOLD_S
        self.on_away: Callable[[], None] = lambda: None
        self.on_boot_changed: Callable[[], Awaitable[None]] | None = None

    async def once(self, step: Callable[[], Awaitable[None]]) -> None:
        """Try `step` until it has worked once, with a pause after each failure."""
        backoff = Backoff(_FIRST_PAUSE_S, self._retry_max_s)
        while not await self._try(step, backoff):
            pass

    async def for_ever(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat `step`, which waits between two turns itself; pause after each failure."""
        backoff = Backoff(_FIRST_PAUSE_S, self._retry_max_s)
        while True:
            if await self._try(step, backoff, tell_boot_changed=True):
                backoff.reset()

    async def beside(self, step: Callable[[], Awaitable[None]], what: str) -> None:
        """Repeat a step without which jobs run on: an unexpected error in it is reported, and the agent lives.

        Else one file that makes such a step fail would end each agent of this node, and with their leases all its jobs.
        """
        subject, pause = f"agent: {what}", Backoff(1.0, 60.0)

        async def done() -> None:
            await step()
            self._problems.clear(subject)
            pause.reset()

        while True:
            try:
                await self.for_ever(done)
            except Exception as error:  # noqa: BLE001 - logged with its traceback, and reported to the portal
                log.error("step failed", step=what, traceback="".join(traceback.format_exception(error)))
                said = f"The agent failed at this and tries again, while jobs run on: {type(error).__name__}: {error}"
                self._problems.note(subject, said)
                await asyncio.sleep(pause.next_s())

    async def _try(
        self, step: Callable[[], Awaitable[None]], backoff: Backoff, *, tell_boot_changed: bool = False
    ) -> bool:
        """Do `step`; after a failure that may pass, pause and return False."""
        try:
            await step()
        except PortalFullError as full:  # it answers: it is not away
            self._note_full(str(full))
            await asyncio.sleep(backoff.next_s())
        except PortalAwayError as away:
            self.on_away()
            if self._away_since is None:
                self._away_since = time.monotonic()
                log.warning("portal away", reason=str(away))
            await asyncio.sleep(backoff.next_s())
        except OSError as error:  # a disk without room, or one that fails: jobs run on, and so does the rest
            self._problems.note("disk", f"The agent's own files cannot be read or written: {error}.")
            await asyncio.sleep(backoff.next_s())
        except PortalRefusedError as refusal:
            await asyncio.sleep(self._pause_after(refusal, backoff))
            # The portal lost our hello, perhaps to an older backup.
            if refusal.code == "boot_changed" and tell_boot_changed and self.on_boot_changed is not None:
                await self.on_boot_changed()
        else:
            return True
        return False

    def note_back(self) -> None:
        if self._away_since is not None:
            log.info("portal back", after_s=round(time.monotonic() - self._away_since, 1))
        self._away_since, self._revoked = None, False

    def _note_full(self, why: str) -> None:
        if time.monotonic() >= self._full_told_at + _FULL_TOLD_S:
            self._full_told_at = time.monotonic()
            log.warning(
                "portal takes less",
                reason=f"{why}: this node keeps logs, figures and records until the portal takes them",
            )

    def _pause_after(self, refusal: PortalRefusedError, backoff: Backoff) -> float:
        if refusal.status != 401:
            log.error("portal refuses", reason=str(refusal))
            return backoff.next_s()
        if not self._revoked:
            self._revoked = True
            log.error(
                "the portal refuses this node's token: no job starts here, and running jobs end with their leases",
                remedy=f"remove {self._token_file} and start with a new join token",
            )
        return self._retry_max_s * _REVOKED_TIMES
