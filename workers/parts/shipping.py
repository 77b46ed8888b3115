"""Sends jobs' logs to the portal, in order and each byte once: the portal's answer says from where to go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from workers.controls.joblog import CHUNK_BYTES, STREAMS, log_identities, log_read
from workers.engines.process import ProcessEngine
from workers.parts.journal import Journal
from workers.parts.part import Part
from workers.parts.problems import Problems
from workers.parts.together import PIECE_BYTES, Heard, News, requests_of
from workers.portal_client import Portal, PortalAwayError, PortalFailedError, PortalRefusedError, try_each
from workers.protocol.wire import LogTaken
from workers.system import log
from workers.system.files import BrokenFileError
from workers.system.filework import FileWork, SlowFilesError
from workers.system.procs import boot_id

AGAIN_S = 0.5


class Shipper:
    """Keeps how far each log is sent. After a restart the answer to the first chunk corrects that."""

    def __init__(
        self, *, portal: Portal, journal: Journal, engine: ProcessEngine, files: FileWork, problems: Problems
    ) -> None:
        self._portal = portal
        self._journal = journal
        self._engine = engine
        self._files = files
        self._problems = problems
        self._known: dict[str, dict[str, list[int | None]]] = {}
        self._full: set[tuple[str, str]] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self._apart = False
        self.together_bytes = 0
        """How much of several logs the portal takes in one request; 0: it takes one log at a time."""
        self.on_done: Callable[[Part], None] = lambda _: None

    def again(self, part: Part) -> None:
        """Send this part's log again: the portal has lost it, and its answer says from where."""
        self._full -= {(part.key, stream) for stream in STREAMS}

    async def ship_all(self) -> bool:
        """Send some of each stream; True when there may be more. Raises PortalAwayError."""
        speaking = {"starting", "running", "ended"}
        parts = [part for part in self._journal.parts.values() if part.phase in speaking and not part.logs_done]
        if self.together_bytes > 0 and not self._apart:
            return await self._ship_together(parts)
        return await self._ship_apart(parts)

    async def _ship_apart(self, parts: list[Part]) -> bool:
        """Send a chunk of each stream by itself. One that the portal fails over holds back no other."""
        more = await try_each(partial(self.ship, part) for part in parts)
        self._apart = False
        return more

    async def _ship_together(self, parts: list[Part]) -> bool:
        """Send what many say in few requests, then a chunk of each stream that has more to say than goes in there.

        An obstacle to a common request, as one job's log that the portal cannot take, must not hold back the
        others: after a failure each log is sent by itself once.
        """
        more, heard = False, list[Heard]()
        async with contextlib.AsyncExitStack() as turns:
            for part in parts:
                turn = self._turns.setdefault(part.key, asyncio.Lock())
                if not turn.locked():  # else somebody sends it now
                    await turns.enter_async_context(turn)
                    heard.append(await self._hear(part))
            try:
                for request in requests_of(heard, self.together_bytes):
                    more |= not await self._send(request)
            except PortalFailedError:
                self._apart = True
                return True
            for each in heard:
                if each.is_done:
                    self._done(each.part)
        for each in heard:
            if each.loud:
                more |= await self.ship(each.part)
        return more or self._apart

    async def _hear(self, part: Part) -> Heard:
        heard = Heard(part, ended=part.phase == "ended")  # looked up before reading, as in `_ship`
        try:
            found = await self._files.run(part.key, self._read_some, part)
        except OSError:  # modes changed, or the disk hangs: try again later
            heard.again = True
            return heard
        for stream, read in found.items():
            if isinstance(read, Exception):
                self._give_up(part, stream, read)
                continue
            data, more = read
            heard.loud |= more
            if data:
                heard.news.append(News(part, stream, part.offsets[stream], data))
        return heard

    def _read_some(self, part: Part) -> dict[str, tuple[bytes, bool] | Exception]:
        found: dict[str, tuple[bytes, bool] | Exception] = {}
        for stream in STREAMS:
            if (part.key, stream) in self._full:
                continue
            try:
                found[stream] = self._read_file(part, stream, part.offsets[stream], PIECE_BYTES)
            except PermissionError:  # the modes are set right, and all is read again
                raise
            except (BrokenFileError, OSError) as error:
                found[stream] = error
        return found

    async def _send(self, request: list[News]) -> bool:
        """Send one request; say whether the portal has all of it now."""
        try:
            answer = await self._portal.logs_together({"pieces": [news.to_wire() for news in request]})
        except PortalRefusedError as refusal:
            if refusal.status == 401:
                raise
            log.warning("logs refused together", pieces=len(request), reason=str(refusal))
            self._apart = True
            if refusal.status == 404:  # an older portal is there again: until the next hello
                self.together_bytes = 0
            return False
        if len(answer["pieces"]) != len(request):
            raise PortalAwayError("the portal answered another number of logs than were sent")
        for news, taken in zip(request, answer["pieces"], strict=True):
            self._take(news, taken)
        return all(news.taken for news in request)

    def _take(self, news: News, taken: LogTaken) -> None:
        part, stream = news.part, news.stream
        if taken["code"] == "unknown_part":
            log.warning("log refused", **part.name, stream=stream, reason="unknown_part")
        if taken["full"] or taken["code"] == "unknown_part":
            self._full.add((part.key, stream))
            news.taken = True
            return
        if taken["next_offset"] == news.offset:
            raise PortalAwayError(f"the log of {part.key} does not grow on the portal")
        part.offsets[stream] = taken["next_offset"]
        news.taken = taken["next_offset"] == news.offset + len(news.data)
        if taken["code"] is not None:
            log.info("log continues at another offset", **part.name, stream=stream, offset=taken["next_offset"])

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
        if ended and not more:
            self._done(part)
        return more

    def _done(self, part: Part) -> None:
        if part.logs_done:
            return
        part.logs_done = True
        self._known.pop(part.key, None)
        self._journal.save(part)
        self._turns.pop(part.key, None)
        self.on_done(part)

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
            self._give_up(part, stream, error)
            return b"", False

    def _give_up(self, part: Part, stream: str, error: Exception) -> None:
        self._problems.note(f"log {part.key} {stream}", f"The rest of its {stream} is not sent: {error}")
        self._full.add((part.key, stream))

    def _read_file(self, part: Part, stream: str, offset: int, most: int = CHUNK_BYTES) -> tuple[bytes, bool]:
        directory = self._journal.directory(part)
        known = self._known.get(part.key)
        if known is None:
            job = self._engine.job(directory)
            known = log_identities(job, boot_id())
            if job is not None:
                self._known[part.key] = known
        return log_read(directory / stream, offset, known.get(stream), most)
