"""Log bytes to the portal, in order and never twice: the portal's own length says where to go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from workers import log
from workers.client import PortalAwayError, PortalRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workers.client import Portal
    from workers.journal import Journal, Part

CHUNK_BYTES = 256 * 1024
STREAMS = ("stdout", "stderr")


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES)
    except FileNotFoundError:
        return b""


class Shipper:
    """Keeps where each log stands; after a restart the first chunk's answer puts it right."""

    def __init__(self, *, portal: Portal, journal: Journal) -> None:
        self._portal = portal
        self._journal = journal
        self._full: set[tuple[str, str]] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self.on_done: Callable[[Part], None] = lambda _: None

    def again(self, part: Part) -> None:
        """The portal has lost what it had of this part's log: it says from where."""
        self._full -= {(part.key, stream) for stream in STREAMS}

    async def ship_all(self) -> bool:
        """One chunk of each stream that has one; True when there may be more. Raises PortalAwayError."""
        more = False
        for part in list(self._journal.parts.values()):
            if part.phase in {"running", "ended"} and not part.logs_done:
                more |= await self.ship(part)
        return more

    async def ship(self, part: Part) -> bool:
        """One chunk of each stream of this part; True when there may be more. One caller at a time."""
        async with self._turns.setdefault(part.key, asyncio.Lock()):
            return await self._ship(part)

    async def _ship(self, part: Part) -> bool:
        # Asked before reading: what was ended then has written all it ever will.
        ended = part.phase == "ended"
        more = False
        for stream in STREAMS:
            more |= await self._ship_stream(part, stream)
        if ended and not more and not part.logs_done:
            part.logs_done = True
            self._journal.save(part)
            self._turns.pop(part.key, None)
            self.on_done(part)
        return more

    async def _ship_stream(self, part: Part, stream: str) -> bool:
        offset = part.offsets[stream]
        path = self._journal.directory(part) / stream
        if (part.key, stream) in self._full or not (data := _read(path, offset)):
            return False
        try:
            answer, taken = await self._portal.logs(part.name, stream=stream, offset=offset, data=data)
        except PortalRefusedError as refusal:
            if refusal.status == 401:
                raise
            log.warning("log refused", **part.name, stream=stream, reason=str(refusal))
            self._full.add((part.key, stream))
            return False
        if answer["next_offset"] == offset:
            raise PortalAwayError(f"the log of {part.key} does not grow on the portal")
        part.offsets[stream] = answer["next_offset"]
        if not taken:
            log.info("log goes on elsewhere", **part.name, stream=stream, offset=answer["next_offset"])
        if answer.get("full"):
            self._full.add((part.key, stream))
            return False
        # A portal that holds more than the file has (it was trimmed) needs nothing until the file has grown past it.
        return path.stat().st_size > part.offsets[stream]
