"""Sends the portal the files that jobs keep: `$BERTH_ARTEFACTS` of each part, and the files that match its patterns.

A folder is walked now and then. Files that rested since the last walk are reported, and sent in pieces where the portal
awaits them. Nothing need be remembered: a new agent, or one that lost the portal, reports all again, and the portal
answers with the parts that it has. A small file that is appended to all the time is sent as it is, now and then.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workers.portal_client import Portal, PortalRefusedError
from workers.protocol.names import clean
from workers.system import log
from workers.system.filework import FileWork, SlowFilesError
from workers.system.folderwalk import MOST_NOTES, GoneError, Seen, Walk, file_read, folder_walk

if TYPE_CHECKING:
    from pathlib import Path

    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.parts.problems import Problems

FOLDER, WORK = "artefacts", "work"
PIECE_BYTES = 2 * 1024 * 1024
FILES_AT_ONCE = 500
MOST_FAILURES = 5
"""Tries to read a file of a dead job."""
PIECES_A_TURN = 8
WALK_SHARE = 50
"""A walk that took a second comes again after fifty."""
WALK_S = 60.0
LATEST_NS = 2**62
"""In the year 2116. A job may set any time; one outside the portal's range is sent as the nearest inside."""
GROWING_BYTES, GROWING_S = 16 * 1024 * 1024, 10.0
"""A file of at most these bytes that never rests is sent as it is, once in these seconds."""


@dataclass(slots=True)
class Files:
    """Knowledge of one part's files. All of it may be forgotten."""

    seen: dict[str, Seen] = field(default_factory=dict)
    told: dict[str, tuple[Seen, float]] = field(default_factory=dict)
    awaited: dict[str, int] = field(default_factory=dict)
    grows: set[str] = field(default_factory=set)
    notes: list[tuple[str, str]] | None = None
    more: int = 0
    roots: dict[str, tuple[Path, str]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    walk_at: float = 0.0
    final: bool = False
    hashed: tuple[str, Seen, int, Any] | None = None


class Artefacts:
    """Keeps what each part's files are. `period_s`: between two walks; `bytes_s`: the most that is sent a second, 0: no limit."""

    def __init__(
        self,
        *,
        portal: Portal,
        journal: Journal,
        files: FileWork,
        problems: Problems,
        boot_id: str,
        period_s: float,
        bytes_s: float,
    ) -> None:
        self._portal, self._journal, self._work, self._boot_id = portal, journal, files, boot_id
        self._problems = problems
        self._period_s, self._bytes_s = period_s, bytes_s
        self._parts: dict[str, Files] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._again: set[str] = set()
        self._given_up: set[str] = set()

    def forget(self) -> None:
        """Tell all again: the portal was away, and may come back from a backup."""
        self._parts.clear()
        self._given_up.clear()
        self._again = {part.key for part in self._journal.parts.values() if part.artefacts is not None}

    def is_done(self, part: Part) -> bool:
        """Say whether the portal has all of a part that has ended."""
        if part.artefacts is None or part.key in self._given_up:
            return True
        return part.artefacts_done and part.key not in self._again

    async def send_all(self) -> bool:
        """Look at each part and send some awaited pieces; True when there is more. Raises PortalAwayError."""
        more = False
        for part in list(self._journal.parts.values()):
            if part.phase in {"running", "ended", "closed"} and not self.is_done(part):
                more |= await self._turn(part, final=not part.live)
        for key in self._parts.keys() - self._journal.parts.keys():
            self._parts.pop(key, None)
            self._turns.pop(key, None)
        return more

    async def send_rest(self, part: Part) -> None:
        """Send all of a part whose job is dead. Raises PortalAwayError or PortalRefusedError."""
        while part.artefacts is not None and not self.is_done(part) and await self._turn(part, final=True):
            pass

    async def _turn(self, part: Part, *, final: bool) -> bool:
        async with self._turns.setdefault(part.key, asyncio.Lock()):
            files = self._parts.setdefault(part.key, Files())
            try:
                await self._walk_and_tell(part, files, final=final)
                await self._send_some(part, files)
            except SlowFilesError:
                return False
            except PortalRefusedError as refusal:
                if refusal.status == 401 or refusal.code == "boot_changed":
                    raise
                if refusal.code in {"not_told", "checksum"}:
                    self._parts[part.key] = Files()  # reported again
                    return True
                await self._give_up(part, files, refusal)
                return False
            if files.final and not files.awaited and not part.live:
                self._done(part)
            return bool(files.awaited) or not (part.live or files.final)

    async def _give_up(self, part: Part, files: Files, refusal: PortalRefusedError) -> None:
        """Send no more of a part, and let it be known: on the job's page or, where that is refused too, on the node's."""
        why = clean(f"the portal refuses what the node tells of its files, and gets no more of them: {refusal}", 300)
        log.warning("artefacts refused", **part.name, reason=str(refusal))
        self._given_up.add(part.key)
        try:
            await self._tell(part, files, [], [], [(".", why), *(files.notes or [])][:MOST_NOTES])
        except PortalRefusedError:
            self._problems.note(f"artefacts {part.key}", why)

    def _done(self, part: Part) -> None:
        self._parts.pop(part.key, None)
        self._again.discard(part.key)
        if not part.artefacts_done:
            part.artefacts_done = True
            self._journal.save(part)

    async def _walk_and_tell(self, part: Part, files: Files, *, final: bool) -> None:
        """Walk where a walk is due, and tell what came, changed or went."""
        if files.final or (not final and time.monotonic() < files.walk_at):
            return
        begun = time.monotonic()
        walk = await self._work.run(f"artefacts {part.key}", self._walk, part, files, limit_s=WALK_S)
        took_s = time.monotonic() - begun
        news = [path for path, seen in walk.files.items() if self._is_news(files, path, seen, final=final)]
        gone = [path for path in files.awaited if path not in walk.files]
        left_out = (walk.notes, walk.more)
        notes = walk.notes if left_out != (files.notes, files.more) and (walk.notes or files.notes) else None
        files.seen, files.more = walk.files, walk.more
        for first in range(0, max(len(news), len(gone), 1), FILES_AT_ONCE):
            some, went = news[first : first + FILES_AT_ONCE], gone[first : first + FILES_AT_ONCE]
            if some or went or (notes is not None and not first):
                await self._tell(part, files, some, went, notes if not first else None)
        files.notes, files.final = walk.notes, final
        files.walk_at = time.monotonic() + max(self._period_s, took_s * WALK_SHARE)

    def _walk(self, part: Part, files: Files) -> Walk:
        rules, room = part.artefacts or {}, self._journal.job_directory(part)
        most = int(rules.get("files", 0))
        walk = folder_walk(room / FOLDER, most_files=most)
        roots = {path: (room / FOLDER, path) for path in walk.files}
        if patterns := rules.get("patterns"):
            working, left = part.artefacts_from, max(0, most - len(walk.files))
            more = folder_walk(room / WORK, below=working, most_files=left, patterns=patterns)
            walk.note_all(more)
            for path, seen in more.files.items():
                if path in walk.files:
                    walk.note(path, "a file in $BERTH_ARTEFACTS has this path, and is kept")
                else:
                    walk.files[path], roots[path] = seen, (room / WORK, f"{working}/{path}".lstrip("/"))
        for path in files.unread & walk.files.keys():
            del walk.files[path]
            walk.note(path, "it could not be read: it changes all the time, or the agent may not open it")
        files.roots = roots
        return walk

    def _is_news(self, files: Files, path: str, seen: Seen, *, final: bool) -> bool:
        told, at = files.told.get(path, (None, 0.0))
        files.grows.discard(path)
        if told == seen:
            return False
        if final or files.seen.get(path) == seen:
            return True
        grows = path in files.seen and seen.size <= GROWING_BYTES and time.monotonic() - at > GROWING_S
        if grows and path not in files.awaited:
            files.grows.add(path)
            return True
        return False

    async def _tell(
        self, part: Part, files: Files, some: list[str], gone: list[str], notes: list[tuple[str, str]] | None
    ) -> None:
        told = [(path, files.seen[path]) for path in some]
        answer = await self._portal.artefacts(
            {
                **part.name,
                "boot_id": self._boot_id,
                "files": [{"path": path, "size": seen.size, "modified_ns": _modified_ns(seen)} for path, seen in told],
                "gone": gone,
                "notes": None if notes is None else [list(note) for note in notes],
                "notes_more": files.more,
            }
        )
        for path in gone:
            files.awaited.pop(path, None)
        for (path, seen), each in zip(told, answer["files"], strict=True):
            files.told[path] = seen, time.monotonic()
            files.awaited.pop(path, None)
            if each["state"] == "send":
                files.awaited[path] = each["offset"]

    async def _send_some(self, part: Part, files: Files) -> None:
        for _ in range(PIECES_A_TURN):
            if not files.awaited:
                return
            path = next(iter(files.awaited))
            try:
                await self._send_piece(part, files, path)
            except GoneError:  # it changed or went since the walk: the next walk reports it
                files.failures[path] = failures = files.failures.get(path, 0) + (not part.live)
                files.final = False
                if failures >= MOST_FAILURES:
                    files.unread.add(path)
                    return
                files.awaited.pop(path, None)
                files.told.pop(path, None)

    async def _send_piece(self, part: Part, files: Files, path: str) -> None:
        seen, offset = files.told[path][0], files.awaited[path]
        stop = min(seen.size, offset + PIECE_BYTES)
        data, digest = await self._work.run(
            f"artefacts {part.key}", self._read, files, path, seen, offset, stop, limit_s=WALK_S
        )
        query = {
            **part.name,
            "path": path,
            "size": seen.size,
            "modified_ns": _modified_ns(seen),
            "offset": offset,
            "piece": hashlib.sha256(data).hexdigest(),
            "whole": digest.hexdigest() if stop == seen.size else "",
        }
        at = await self._portal.artefact_piece(query, data)
        if stop == seen.size and at == seen.size:
            files.awaited.pop(path, None)
            files.hashed = None
        else:
            files.awaited[path] = at
            files.hashed = (path, seen, stop, digest) if at == stop else None
        if self._bytes_s:
            await asyncio.sleep(len(data) / self._bytes_s)

    def _read(self, files: Files, path: str, seen: Seen, offset: int, stop: int) -> tuple[bytes, Any]:
        """Read a piece, and the digest of all up to its end; for that it reads again what an earlier agent sent."""
        if path not in files.roots:
            raise GoneError(path)
        (root, inside), may_grow = files.roots[path], path in files.grows
        at, digest = 0, hashlib.sha256()
        if files.hashed is not None and files.hashed[:2] == (path, seen) and files.hashed[2] <= offset:
            at, digest = files.hashed[2], files.hashed[3].copy()
        while at < offset:
            piece = file_read(root, inside, seen, start=at, stop=min(offset, at + PIECE_BYTES), may_grow=may_grow)
            digest.update(piece)
            at += len(piece)
        files.hashed = path, seen, offset, digest
        data = file_read(root, inside, seen, start=offset, stop=stop, may_grow=may_grow)
        after = digest.copy()
        after.update(data)
        return data, after


def _modified_ns(seen: Seen) -> int:
    return min(max(0, seen.modified_ns), LATEST_NS)
