"""How a part ends: by itself, by an order, before it started, or lost together with its shim."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from workers.portal_client import PortalAwayError, PortalRefusedError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from workers.parts.part import Part
    from workers.parts.tools import Tools

# How long the report of a part's end waits, so that its last records and log bytes come first.
LAST_LOG_S = 1.0
# How many times longer an ended part is kept while the portal lacks its artefacts.
UNSENT_TIMES = 7


class Ending:
    def __init__(self, tools: Tools, spawn: Callable[[str, Coroutine[Any, Any, None]], object]) -> None:
        self._tools = tools
        self._spawn = spawn
        self._stop_grace: dict[str, float] = {}
        self._stopping: dict[str, asyncio.Lock] = {}
        self._retelling: set[str] = set()
        self._emptied: set[str] = set()
        self.artefacts_wait_s = 0.0
        self.leaves = ""
        """Why all parts are stopped; a batch system may have told their shims first."""
        tools.reporter.on_stop = lambda part: (
            None if part.dropped else self.drop(part, grace_s=0.0)
        )  # else it is ending already
        tools.reporter.on_settled = self.close_if_done
        tools.shipper.on_done = self.close_if_done

    def stop(self, part: Part, *, grace_s: float, detail: str) -> None:
        """Send SIGTERM now and SIGKILL after the grace. Of several calls the one with the shortest grace counts."""
        if grace_s < self._stop_grace.get(part.key, float("inf")):
            self._stop_grace[part.key] = grace_s
            self._spawn(part.key, self._stop(part, grace_s, detail))

    async def _stop(self, part: Part, grace_s: float, detail: str) -> None:
        directory = self._tools.journal.directory(part)
        async with self._stopping.setdefault(part.key, asyncio.Lock()):
            if not part.live or grace_s > self._stop_grace.get(part.key, grace_s):
                return  # it has ended, or a call with a shorter grace came meanwhile
            unstarted = await self._tools.on_files(part, self._stop_files, directory, grace_s, detail)
        if unstarted:
            await self.end_unstarted(part, reason="stopped", detail=detail or "it never started")
        else:
            log.info("part stopping", **part.name, grace_s=grace_s, why=detail)

    def _stop_files(self, directory: Path, grace_s: float, detail: str) -> bool:
        """Stop the part by its files. True: it had not started, and never will."""
        engine = self._tools.engine
        life = engine.life(directory)
        if life == "void" or (life == "absent" and engine.void(directory)):
            return True
        engine.stop(directory, grace_s=grace_s, detail=detail)
        return False

    def end_over_grant(self, part: Part, detail: str) -> None:
        """Kill a part that takes more of a shared GPU's memory than it was granted; `detail` says how much."""
        if not part.gpu_over:
            part.gpu_over = detail
            self._tools.journal.save(part)
            log.warning("part over its grant", **part.name, job=part.job, why=detail)
        self.stop(part, grace_s=0.0, detail=detail)

    def drop(self, part: Part, *, grace_s: float) -> None:
        """End the part without a report, because the portal has closed it."""
        if not part.dropped:
            part.dropped = True
            part.reports = []
            self._tools.journal.save(part)
            log.info("part dropped", **part.name, job=part.job)
        self.stop(part, grace_s=grace_s, detail="no longer wanted")

    def retell(self, part: Part) -> None:
        """Report again what the portal had and has lost, together with the part's log and records."""
        if part.key not in self._retelling:
            self._retelling.add(part.key)
            self._spawn(part.key, self._retell(part))

    async def _retell(self, part: Part) -> None:
        log.info("reported again", **part.name, job=part.job, phase=part.phase)
        engine, directory = self._tools.engine, self._tools.journal.directory(part)
        result = await self._tools.on_files(part, engine.result, directory)
        job = await self._tools.on_files(part, engine.job, directory)
        self._retelling.discard(part.key)
        if part.phase in {"ended", "closed"}:
            end = part.end or result or {"reason": "lost", "detail": "the node no longer knows how it ended"}
            told = ("pid", "exit_code", "signal", "reason", "detail", "overran")
            report = {name: end[name] for name in told if name in end}
            at = end.get("at") or end.get("ended_at") or time.time()
            part.artefacts_done = False
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
        """End a part whose command never ran. From now on it never will."""
        await self._tools.on_files(part, self._tools.engine.void, self._tools.journal.directory(part))
        if not part.live:  # another task has ended it meanwhile
            return
        part.logs_done = True
        self._tools.journal.report(part, {"state": "ended", "reason": reason, "detail": detail}, phase="ended")
        await self._forget(part)
        log.info("part ended unstarted", **part.name, job=part.job, reason=reason, detail=detail)

    async def end_started(self, part: Part) -> None:
        """Report the end of a part whose shim is gone. Without a result, kill first what is left of the part."""
        self._tools.engine.reap()
        result = await self._tools.on_files(part, self._tools.engine.result, self._tools.journal.directory(part))
        if result is None:
            result = await self._kill_lost(part)
        if result["pid"] is not None:
            await self.report_running(part)
        if not part.live:
            return
        with contextlib.suppress(TimeoutError, PortalAwayError, PortalRefusedError):
            # If the portal takes them quickly, the last log bytes and records come before the end: as soon as the portal
            # knows the end of a profile, it places the job by the profile's figures.
            async with asyncio.timeout(LAST_LOG_S):
                await self._tools.records.send_rest(part)
                while await self._tools.shipper.ship(part):
                    pass
        with contextlib.suppress(TimeoutError, PortalAwayError, PortalRefusedError):
            async with asyncio.timeout(self.artefacts_wait_s):
                await self._tools.artefacts.send_rest(part)
        report = {key: result[key] for key in ("pid", "exit_code", "signal", "reason", "detail")}
        if part.gpu_over and report["reason"] == "stopped":
            report |= {"reason": "gpu_memory_limit", "detail": part.gpu_over}
        if self.leaves and report["reason"] == "stopped":
            report["detail"] = self.leaves
        report["overran"] = result.get("overran") is True  # an older shim does not say
        if (report["reason"], report["exit_code"]) == ("exit", 0):
            part.dropped = False  # it had ended well before the portal closed it as lost: it may still count
        self._tools.journal.report(part, {**report, "state": "ended", "at": result["ended_at"]}, phase="ended")
        await self._forget(part)
        log.info("part ended", **part.name, job=part.job, **report)

    async def report_running(self, part: Part) -> None:
        """Report once that the command runs, or that it ran when it has already ended."""
        job = await self._tools.on_files(part, self._tools.engine.job, self._tools.journal.directory(part))
        if part.phase not in {"prepared", "starting"} or job is None or job.get("building"):
            return
        report = {"state": "running", "pid": job["pid"], "at": job["started_at"]}
        if job.get("commit"):
            report["commit"] = job["commit"]
        self._tools.journal.report(part, report, phase="running")
        self._tools.reporter.wake()
        log.info("part running", **part.name, job=part.job, pid=job["pid"])

    async def _kill_lost(self, part: Part) -> dict[str, Any]:
        """Kill what a shim without a result left behind, until nothing of it lives. Only then the part has ended."""
        directory = self._tools.journal.directory(part)
        while True:
            try:
                killed = await self._tools.on_files(part, lambda: self._tools.engine.purge(directory, mark=part.mark))
                break
            except TimeoutError as error:  # it has tried for seconds, and so will the next try
                log.error("part does not die", **part.name, reason=str(error))
        job = await self._tools.on_files(part, self._tools.engine.job, directory)
        return {
            "pid": job and job["pid"],
            "exit_code": None,
            "signal": None,
            "reason": "lost",
            "detail": f"its shim ended without a result; {killed} processes were left, and the agent killed them",
            "ended_at": time.time(),
        }

    async def _forget(self, part: Part) -> None:
        self._stop_grace.pop(part.key, None)
        self._stopping.pop(part.key, None)
        self._tools.reporter.leased_until.pop(part.key, None)
        self.close_if_done(part)
        self._tools.reporter.wake()
        await self._tools.on_networks(part.key, self._tools.networks.end, part.key)

    def close_if_done(self, part: Part) -> None:
        if part.phase == "ended" and not part.reports and part.logs_done:
            self._tools.journal.close(part)

    async def make_room(self, *, wanted: set[str]) -> None:
        """Remove the jobs' files of closed parts whose records the portal has; once for each part."""
        for part in list(self._tools.journal.parts.values()):
            done = part.phase == "closed" and self._tools.records.is_done(part) and self._tools.artefacts.is_done(part)
            if not done or part.key in wanted or part.key in self._emptied:
                continue
            self._emptied.add(part.key)
            try:
                await self._tools.on_files(part, self._tools.journal.empty, part)
            except OSError as error:
                self._tools.problems.note_remains(part.key, error)
        self._emptied &= set(self._tools.journal.parts)

    async def tidy(self, *, keep_ended_s: float, wanted: set[str]) -> None:
        """Remove the parts that were closed more than `keep_ended_s` ago."""
        for part in list(self._tools.journal.parts.values()):
            kept_s = keep_ended_s if self._tools.artefacts.is_done(part) else keep_ended_s * UNSENT_TIMES
            old = part.closed_at is not None and time.time() - part.closed_at > kept_s
            if old and part.phase == "closed" and part.key not in wanted:
                del self._tools.journal.parts[part.key]
                try:
                    await self._tools.on_files(part, self._tools.journal.remove, part)
                except OSError as error:
                    self._tools.problems.note_remains(part.key, error)
