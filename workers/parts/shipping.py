"""Sends jobs' logs to the portal, in order and each byte once: the portal's answer says from where to go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from workers.controls.joblog import STREAMS, log_read, logs_known
from workers.protocol.client import PortalAwayError, PortalRefusedError
from workers.system import log
from workers.system.files import BrokenFileError
from workers.system.filework import SlowFilesError
from workers.system.procs import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.engines import Engine
    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.parts.problems import Problems
    from workers.protocol.client import Portal
    from workers.system.filework import FileWork

AGAIN_S = 0.5


class Shipper:
    """Keeps how far each log is sent. After a restart the answer to the first chunk corrects that."""

    def __init__(
        self, *, portal: Portal, journal: Journal, engine: Engine, files: FileWork, problems: Problems
    ) -> None:
        self._portal = portal
        self._journal = journal
        self._engine = engine
        self._files = files
        self._problems = problems
        self._known: dict[str, dict[str, list[int | None]]] = {}
        self._full: set[tuple[str, str]] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self.on_done: Callable[[Part], None] = lambda _: None

    def again(self, part: Part) -> None:
        """Send this part's log again: the portal has lost it, and its answer says from where."""
        self._full -= {(part.key, stream) for stream in STREAMS}

    async def ship_all(self) -> bool:
        """Send one chunk of each stream; True when there may be more. Raises PortalAwayError."""
        more = False
        for part in list(self._journal.parts.values()):
            if part.phase in {"starting", "running", "ended"} and not part.logs_done:
                more |= await self.ship(part)
        return more

    async def ship(self, part: Part) -> bool:
        """Send one chunk of each of this part's streams; True when there may be more. One caller at a time does it."""
        async with self._turns.setdefault(part.key, asyncio.Lock()):
            return await self._ship(part)

    async def _ship(self, part: Part) -> bool:
        # Looked up before reading: a part that has ended by now writes nothing more.
        ended = part.phase == "ended"
        more = False
        for stream in STREAMS:
            more |= await self._ship_stream(part, stream)
        if ended and not more and not part.logs_done:
            part.logs_done = True
            self._known.pop(part.key, None)
            self._journal.save(part)
            self._turns.pop(part.key, None)
            self.on_done(part)
        return more

    async def _ship_stream(self, part: Part, stream: str) -> bool:
        offset = part.offsets[stream]
        if (part.key, stream) in self._full:
            return False
        data, more = await self._read(part, stream, offset)
        if not data:
            return more
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
            log.info("log continues at another offset", **part.name, stream=stream, offset=answer["next_offset"])
        if answer.get("full"):
            self._full.add((part.key, stream))
            return False
        return more or part.offsets[stream] < offset + len(data)

    async def _read(self, part: Part, stream: str, offset: int) -> tuple[bytes, bool]:
        """Read a chunk, and whether there is more. A log in whose place another file lies is sent no further."""
        try:
            return await self._files.run(part.key, self._read_file, part, stream, offset)
        except (PermissionError, SlowFilesError):  # modes changed, or the disk hangs: try again later
            await asyncio.sleep(AGAIN_S)
            return b"", True
        except (BrokenFileError, OSError) as error:
            self._problems.note(f"log {part.key} {stream}", f"The rest of its {stream} is not sent: {error}")
            self._full.add((part.key, stream))
            return b"", False

    def _read_file(self, part: Part, stream: str, offset: int) -> tuple[bytes, bool]:
        directory = self._journal.directory(part)
        known = self._known.get(part.key)
        if known is None:
            job = self._engine.job(directory)
            known = logs_known(job, boot_id())
            if job is not None:
                self._known[part.key] = known
        return log_read(directory / stream, offset, known.get(stream))
