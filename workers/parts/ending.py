"""How parts end: by themselves, told to, without having started, or lost with their shim."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, TypeVar

from workers.protocol.client import PortalAwayError, PortalRefusedError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from workers.parts.part import Part
    from workers.parts.tools import Tools

_Value = TypeVar("_Value")
# How long an ended part's last records and log bytes may hold up the news of its end.
LAST_LOG_S = 1.0


class Ending:
    """Stops parts and tells of their ends."""

    def __init__(self, tools: Tools, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._tools = tools
        self._spawn = spawn
        self._stop_grace: dict[str, float] = {}
        self._stopping: dict[str, asyncio.Lock] = {}
        self._retelling: set[str] = set()
        self._emptied: set[str] = set()
        tools.reporter.on_stop = self._stop_at_once
        tools.reporter.on_settled = self.close_if_done
        tools.shipper.on_done = self.close_if_done

    def stop(self, part: Part, *, grace_s: float, detail: str) -> None:
        """SIGTERM now and SIGKILL after the grace; asked again, only a shorter grace changes anything."""
        if grace_s < self._stop_grace.get(part.key, float("inf")):
            self._stop_grace[part.key] = grace_s
            self._spawn(self._stop(part, grace_s, detail))

    async def _stop(self, part: Part, grace_s: float, detail: str) -> None:
        directory = self._tools.journal.directory(part)
        async with self._stopping.setdefault(part.key, asyncio.Lock()):
            if not part.live or grace_s > self._stop_grace.get(part.key, grace_s):
                return  # it has ended, or was meanwhile asked to be quicker
            unstarted = await self._files(part, self._stop_files, directory, grace_s, detail)
        if unstarted:
            await self.end_unstarted(part, reason="stopped", detail=detail or "it never started")
        else:
            log.info("part stopping", **part.name, grace_s=grace_s, why=detail)

    def _stop_files(self, directory: Path, grace_s: float, detail: str) -> bool:
        """True when it had not started and never will; else it has been told to stop."""
        engine = self._tools.engine
        if engine.life(directory) == "absent" and engine.void(directory):
            return True
        engine.stop(directory, grace_s=grace_s, detail=detail)
        return False

    async def _files(self, part: Part, work: Callable[..., _Value], *args: Any) -> _Value:
        """Done beside the loop, however long it takes: the part's own road waits, nobody else's does."""
        return await self._tools.patiently(part.key, work, *args)

    def drop(self, part: Part, *, grace_s: float) -> None:
        """End it without a report: the portal has closed it."""
        if not part.dropped:
            part.dropped = True
            part.reports = []
            self._tools.journal.save(part)
            log.info("part dropped", **part.name, job=part.job)
        self.stop(part, grace_s=grace_s, detail="no longer wanted")

    def _stop_at_once(self, part: Part) -> None:
        if not part.dropped:  # else its grace runs already
            self.drop(part, grace_s=0.0)

    def retell(self, part: Part) -> None:
        """Tell again what the portal once took and no longer knows, with the log and the records that go with it."""
        if part.key not in self._retelling:
            self._retelling.add(part.key)
            self._spawn(self._retell(part))

    async def _retell(self, part: Part) -> None:
        log.info("told again", **part.name, job=part.job, phase=part.phase)
        engine, directory = self._tools.engine, self._tools.journal.directory(part)
        result = await self._files(part, engine.result, directory)
        job = await self._files(part, engine.job, directory)
        self._retelling.discard(part.key)
        if part.phase in {"ended", "closed"}:
            end = part.end or result or {"reason": "lost", "detail": "nothing is kept of its end"}
            report = {name: end[name] for name in ("pid", "exit_code", "signal", "reason", "detail") if name in end}
            at = end.get("at") or end.get("ended_at") or time.time()
            part.closed_at, part.logs_done, part.offsets = None, False, dict.fromkeys(part.offsets, 0)
            self._tools.shipper.again(part)
            self._tools.records.again(part)
            self._tools.journal.report(part, {**report, "state": "ended", "at": at}, phase="ended")
        elif part.phase == "running":
            began = job or {"pid": None, "started_at": time.time()}
            report = {"state": "running", "pid": began["pid"], "at": began["started_at"]}
            self._tools.journal.report(part, report, phase="running")
        else:
            self._tools.journal.report(part, {"state": "prepared"}, phase="prepared")
        self._tools.reporter.wake()

    async def end_unstarted(self, part: Part, *, reason: str, detail: str) -> None:
        """End a part whose command never ran and, from now on, never will."""
        await self._files(part, self._tools.engine.void, self._tools.journal.directory(part))
        if not part.live:  # someone else was quicker
            return
        part.logs_done = True
        self._tools.journal.report(part, {"state": "ended", "reason": reason, "detail": detail}, phase="ended")
        self._forget(part)
        log.info("part ended unstarted", **part.name, job=part.job, reason=reason, detail=detail)

    async def end_started(self, part: Part) -> None:
        """The shim is gone: read the result, or clean up after it when there is none, and report."""
        self._tools.engine.reap()
        result = await self._files(part, self._tools.engine.result, self._tools.journal.directory(part))
        if result is None:
            result = await self._lost(part)
        if result["pid"] is not None:
            await self.report_running(part)
        if not part.live:
            return
        with contextlib.suppress(TimeoutError, PortalAwayError, PortalRefusedError):
            # The end is told after the last words and records, if the portal takes them quickly: a profile's job is placed
            # by what was measured as soon as its end is known.
            async with asyncio.timeout(LAST_LOG_S):
                await self._tell_rest(part)
        report = {key: result[key] for key in ("pid", "exit_code", "signal", "reason", "detail")}
        self._tools.journal.report(part, {**report, "state": "ended", "at": result["ended_at"]}, phase="ended")
        self._forget(part)
        log.info("part ended", **part.name, job=part.job, **report)

    async def report_running(self, part: Part) -> None:
        """Tell once that the command runs, or that it did, when it was over before anyone could look."""
        job = await self._files(part, self._tools.engine.job, self._tools.journal.directory(part))
        if part.phase not in {"prepared", "starting"} or job is None:
            return
        report = {"state": "running", "pid": job["pid"], "at": job["started_at"]}
        self._tools.journal.report(part, report, phase="running")
        self._tools.reporter.wake()
        log.info("part running", **part.name, job=part.job, pid=job["pid"])

    async def _tell_rest(self, part: Part) -> None:
        await self._tools.records.send_rest(part)
        while await self._tools.shipper.ship(part):
            pass

    async def _lost(self, part: Part) -> dict[str, Any]:
        """Kill what the shim left, until nothing lives: only then is the part ended."""
        directory = self._tools.journal.directory(part)
        while True:
            try:
                killed = await self._files(part, lambda: self._tools.engine.purge(directory, mark=part.mark))
                break
            except TimeoutError as error:  # it tried for seconds; the next try does too
                log.error("part does not die", **part.name, reason=str(error))
        return {
            "pid": await self._files(part, self._tools.engine.pid, directory),
            "exit_code": None,
            "signal": None,
            "reason": "lost",
            "detail": f"its shim is gone without a result; {killed} processes were left and killed",
            "ended_at": time.time(),
        }

    def _forget(self, part: Part) -> None:
        self._stop_grace.pop(part.key, None)
        self._stopping.pop(part.key, None)
        self._tools.reporter.leased_until.pop(part.key, None)
        self.close_if_done(part)
        self._tools.reporter.wake()

    def close_if_done(self, part: Part) -> None:
        if part.phase == "ended" and not part.reports and part.logs_done:
            self._tools.journal.close(part)

    async def make_room(self, *, wanted: set[str]) -> None:
        """Empty the directories of closed parts of which all is told; each is emptied once."""
        for part in list(self._tools.journal.parts.values()):
            done = part.phase == "closed" and self._tools.records.is_done(part)
            if not done or part.key in wanted or part.key in self._emptied:
                continue
            self._emptied.add(part.key)
            try:
                await self._files(part, self._tools.journal.empty, part)
            except OSError as error:
                self._tools.problems.note(f"remains {part.key}", f"What a job left cannot be removed: {error}")
        self._emptied &= set(self._tools.journal.parts)

    async def tidy(self, *, keep_ended_s: float, wanted: set[str]) -> None:
        """Remove what has been closed for long enough."""
        for part in list(self._tools.journal.parts.values()):
            old = part.closed_at is not None and time.time() - part.closed_at > keep_ended_s
            if old and part.phase == "closed" and part.key not in wanted:
                del self._tools.journal.parts[part.key]
                try:
                    await self._files(part, self._tools.journal.remove, part)
                except OSError as error:
                    self._tools.problems.note(f"remains {part.key}", f"What a job left cannot be removed: {error}")
