"""Sends the records of instrumented jobs to the portal, each once and in order: the portal says from which offset on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from workers.parts.recordlines import Found, records_read
from workers.portal_client import Portal, PortalFailedError, PortalRefusedError, try_each
from workers.protocol.names import part_key, part_name
from workers.system import log
from workers.system.filework import FileWork, SlowFilesError

if TYPE_CHECKING:
    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.protocol.wire import PartRecords, RecordsTaken

PARTS_AT_ONCE = 8
"""Most parts in one message, which stays below half a megabyte."""


class Records:
    """Keeps how far each part's records are sent. After a restart the portal's first answer corrects that."""

    def __init__(self, *, portal: Portal, journal: Journal, files: FileWork, boot_id: str) -> None:
        self._portal = portal
        self._journal = journal
        self._files = files
        self._boot_id = boot_id
        self._offsets: dict[str, int] = {}
        self._done: set[str] = set()

    def again(self, part: Part) -> None:
        """Send this part's records again: the portal has lost them, and its answer says from where."""
        self._offsets.pop(part.key, None)
        self._done.discard(part.key)

    async def send_all(self) -> bool:
        """Send what each part has, one message at most; True when there may be more. Raises PortalAwayError."""
        self._done &= set(self._journal.parts)
        living = {"running", "ended", "closed"}
        parts = [p for p in self._journal.parts.values() if p.phase in living and p.key not in self._done]
        groups = (parts[first : first + PARTS_AT_ONCE] for first in range(0, len(parts), PARTS_AT_ONCE))
        return await try_each(partial(self._send, group) for group in groups)

    async def send_rest(self, part: Part) -> None:
        """Send all that an ended part still has. Raises PortalAwayError or PortalRefusedError."""
        while await self._send([part]):
            pass

    def is_done(self, part: Part) -> bool:
        """Say whether all records of an ended part are sent. Then nothing is read from its directory any more."""
        return part.key in self._done

    async def _send(self, parts: list[Part]) -> bool:
        over = {part.key for part in parts if not part.live}  # looked up before reading: an ended part writes no more
        found = {part.key: await self._read(part) for part in parts}
        news: list[PartRecords] = [
            {
                **part_name(part.name),
                "offset": self._offsets.get(part.key, 0),
                "next_offset": found[part.key].next_offset,
                "dropped": found[part.key].dropped,
                "records": found[part.key].records,
            }
            for part in parts
            if found[part.key].next_offset > self._offsets.get(part.key, 0)
        ]
        self._done |= over - {part_key(item) for item in news}
        if news:
            await self._exchange_apart(news)
        return any(each.more for each in found.values())

    async def _read(self, part: Part) -> Found:
        directory, offset = self._journal.job_directory(part) / "records", self._offsets.get(part.key, 0)
        try:
            return await self._files.run(f"records {part.key}", records_read, directory, offset)
        except SlowFilesError:
            return Found(offset)

    async def _exchange_apart(self, news: list[PartRecords]) -> None:
        """Send them together; each by itself where the portal fails over them: one that it fails over holds back no other."""
        try:
            await self._exchange(news)
        except PortalFailedError:
            if len(news) == 1:
                raise
            await try_each(partial(self._exchange, [each]) for each in news)

    async def _exchange(self, news: list[PartRecords]) -> None:
        try:
            answer = await self._portal.records({"boot_id": self._boot_id, "parts": news})
        except PortalRefusedError as refusal:
            if refusal.status in {401, 404} or refusal.code == "boot_changed":
                raise
            # It would refuse the same records again: they are given up.
            log.warning("records refused", reason=str(refusal), parts=[part_key(item) for item in news])
            self._offsets |= {part_key(item): item["next_offset"] for item in news}
            return
        for taken in answer["parts"]:
            self._settle(taken)

    def _settle(self, taken: RecordsTaken) -> None:
        key = part_key(taken)
        self._offsets[key] = taken["next_offset"]
        if taken["code"] == "unknown_part":
            self._done.add(key)
        elif taken["code"] is not None:
            log.info("records continue at another offset", **part_name(taken), offset=taken["next_offset"])
