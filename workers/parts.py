"""The parts on this node: making ready, starting, watching, stopping, ending. One asyncio loop, so no locks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from workers import log
from workers.client import Backoff, PortalAwayError, PortalRefusedError
from workers.files import read_json, write_json
from workers.journal import Journal, Part
from workers.procs import boottime
from workers.reconcile import Action, decide
from workers.wire import Spec, Wanted, part_key
from workers.workspace import SpecError, Workplace, part_prepare

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from workers.client import Portal
    from workers.engines import Engine
    from workers.reporting import Reporter
    from workers.shipping import Shipper

# A shim that has not come up by then never will (its interpreter is broken, or the disk is full).
SHIM_UP_S = 15.0
# How long an ended part's last log bytes may hold up the news of its end.
LAST_LOG_S = 1.0
# Before a part that the portal did not let start is tried again.
NO_LEASE_PAUSE_S = 1.0


class Parts:
    """Brings what runs here to what the portal wants."""

    def __init__(
        self,
        *,
        portal: Portal,
        journal: Journal,
        engine: Engine,
        reporter: Reporter,
        shipper: Shipper,
        tenant_file: Path,
        trust_tenants: bool,
    ) -> None:
        self._portal = portal
        self._journal = journal
        self._engine = engine
        self._reporter = reporter
        self._shipper = shipper
        self._tenant_file = tenant_file
        self._trust_tenants = trust_tenants
        self.place: Workplace | None = None  # known once the portal has said hello
        self._wanted: dict[str, Wanted] = {}
        self._begins: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._watched: dict[str, int] = {}
        self._stop_grace: dict[str, float] = {}
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reporter.on_stop = self._stop_stale
        reporter.on_settled = self.close_if_done
        shipper.on_done = self.close_if_done

    # What is here at the start

    def adopt(self) -> None:
        """Take up every part that an earlier agent left, by what its directory says."""
        for part in [p for p in self._journal.parts.values() if p.live]:
            life = self._engine.life(self._journal.directory(part))
            log.info("part adopted", **part.name, phase=part.phase, life=life)
            if life == "absent":
                # Not yet started, or a shim is on its way; starting again is harmless, so the portal's word decides.
                continue
            self._spawn(self._follow(part))

    # What the portal wants

    def apply(self, wanted: list[Wanted]) -> None:
        """Act on a whole new list."""
        self._wanted = {part_key(w): w for w in wanted}
        for action in decide(wanted, self._journal.parts):
            self._act(action)

    def _act(self, action: Action) -> None:
        part = self._journal.parts.get(action.key)
        if action.kind in {"prepare", "start"}:
            if action.key not in self._begins:
                task = self._spawn(self._begin(action.key))
                self._begins[action.key] = task
                task.add_done_callback(lambda _: self._begun(action.key))
        elif action.kind == "answer" and action.wanted:
            self._answer_unknown(action.wanted)
        elif action.kind == "stop" and part and action.wanted:
            self._stop(part, grace_s=action.wanted["grace_s"], detail=action.wanted["stop_reason"] or "")
        elif action.kind == "drop" and part:
            self._drop(part, grace_s=self.place.node_grace_s if self.place else 0.0)

    def _begun(self, key: str) -> None:
        """What was wanted of this part meanwhile is done now, but for preparing, which waits for the next list."""
        del self._begins[key]
        for action in decide(list(self._wanted.values()), self._journal.parts):
            if action.key == key and action.kind != "prepare":
                self._act(action)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run beside the rest; an unexpected error ends the agent, which comes back and re-adopts."""
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        if not task.cancelled() and task.exception() and not self.failed.done():
            self.failed.set_exception(task.exception())  # type: ignore[arg-type]

    # Beginning

    async def _begin(self, key: str) -> None:
        """Prepare and, when told to go, start; again and again while the portal is away and still wants it."""
        backoff = Backoff(0.2, 5.0)
        while (wanted := self._wanted.get(key)) and wanted["action"] == "run" and self.place:
            try:
                if await self._prepare(wanted, self.place) and self._wanted.get(key, wanted)["go"]:
                    await self._start(self._journal.parts[key])
            except PortalAwayError:
                await asyncio.sleep(backoff.next_s())
                continue
            except PortalRefusedError as refusal:
                log.warning("part not begun", part=key, reason=str(refusal))
                await asyncio.sleep(NO_LEASE_PAUSE_S)
            return

    async def _prepare(self, wanted: Wanted, place: Workplace) -> bool:
        """False when it is not to be started (no longer wanted, or refused and reported)."""
        part = self._journal.parts.get(part_key(wanted))
        if part is not None and part.phase != "claimed":
            return part.live
        await self._end_older(wanted)
        spec = await self._portal.spec(wanted["attempt"])
        if spec is None or (spec["epoch"], spec["rank"]) != (wanted["epoch"], wanted["rank"]):
            log.info("part no longer wanted", part=part_key(wanted))
            return False
        current = self._wanted.get(part_key(wanted))
        if current is None or current["action"] != "run":
            return False  # the portal thought otherwise while we asked
        if part is None:
            part = self._claim(wanted, place)
        refusal = self._tenant_refusal(spec)
        if refusal:
            self._end_unstarted(part, reason="tenant_not_trusted", detail=refusal)
            return False
        try:
            await asyncio.to_thread(part_prepare, self._journal.directory(part), spec, wanted, place)
        except (SpecError, OSError) as error:
            self._end_unstarted(part, reason="start_failed", detail=str(error))
            return False
        if not part.live:
            return False  # stopped while it was made ready
        part.gpus = spec["gpus"]
        if wanted["go"]:
            part.phase = "prepared"
            self._journal.save(part)
        else:
            self._journal.report(part, {"state": "prepared"}, phase="prepared")
            self._reporter.wake()
        log.info("part prepared", **part.name, job=part.job)
        return True

    def _claim(self, wanted: Wanted, place: Workplace) -> Part:
        part = Part(
            attempt=wanted["attempt"],
            epoch=wanted["epoch"],
            rank=wanted["rank"],
            job=wanted["job"],
            boot_id=place.boot_id,
            lease_s=wanted["lease_s"],
        )
        self._journal.create(part)
        return part

    async def _end_older(self, wanted: Wanted) -> None:
        """No attempt begins while an older one of the same job still lives here."""
        for part in list(self._journal.parts.values()):
            same_attempt = (part.attempt, part.epoch) == (wanted["attempt"], wanted["epoch"])
            if part.job != wanted["job"] or same_attempt:
                continue
            if part.live:
                log.warning("older attempt killed", **part.name, job=part.job, newer=wanted["attempt"])
                self._drop(part, grace_s=0.0)
            while part.live:
                await asyncio.sleep(0.05)

    def _tenant_refusal(self, spec: Spec) -> str | None:
        """All jobs share one account, so the first tenant has the node to itself unless tenants trust each other."""
        if self._trust_tenants:
            return None
        owner = read_json(self._tenant_file)
        if owner is None:
            write_json(self._tenant_file, {"tenant_id": spec["tenant_id"], "tenant": spec["tenant"]})
            return None
        if owner["tenant_id"] == spec["tenant_id"]:
            return None
        return f"this node runs all jobs under one account and serves {owner['tenant']}; tenants are not said to trust"

    async def _start(self, part: Part) -> None:
        if part.lease_s is not None and self._reporter.leased_until.get(part.key, 0.0) <= boottime():
            # A lease is had from the portal now, for the list that named this part may be old.
            await self._reporter.exchange()
            if self._reporter.leased_until.get(part.key, 0.0) <= boottime():
                log.warning("part not started", **part.name, reason="the portal gave no lease")
                await asyncio.sleep(NO_LEASE_PAUSE_S)
                return
        wanted = self._wanted.get(part.key)
        if part.phase not in {"prepared", "starting"} or wanted is None or wanted["action"] != "run":
            return
        part.phase = "starting"
        self._journal.save(part)
        self._engine.start(self._journal.directory(part))
        await self._follow(part)

    # Running

    async def _follow(self, part: Part) -> None:
        """From a started shim to a watched job, or to its end when that was quicker."""
        directory = self._journal.directory(part)
        give_up_at = boottime() + SHIM_UP_S
        while part.live:
            life = self._engine.life(directory)
            if life in {"ended", "lost"}:
                await self._ended(part)
                return
            if life == "void":
                self._end_unstarted(part, reason="stopped", detail="it never started")
            if life == "alive" and self._engine.pid(directory) is not None:
                self._report_running(part)
                self._watch(part)
                return
            if life == "absent" and boottime() > give_up_at and self._engine.void(directory):
                text = (directory / "shim.log").read_text(errors="replace")[-500:]
                self._end_unstarted(part, reason="start_failed", detail=f"the shim did not come up: {text}")
                return
            await asyncio.sleep(0.01)

    def _report_running(self, part: Part) -> None:
        if part.phase == "running":
            return
        job = read_json(self._journal.directory(part) / "job.json")
        self._journal.report(part, {"state": "running", "pid": job["pid"], "at": job["started_at"]}, phase="running")
        self._reporter.wake()
        log.info("part running", **part.name, job=part.job, pid=job["pid"])

    def _watch(self, part: Part) -> None:
        """Hear of the shim's end at once, whoever's child it is."""
        shim = self._engine.shim(self._journal.directory(part))
        descriptor = shim.open_pidfd() if shim else None
        if descriptor is None:
            self._spawn(self._ended(part))
            return
        self._watched[part.key] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._shim_ended, part)

    def _shim_ended(self, part: Part) -> None:
        descriptor = self._watched.pop(part.key)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._spawn(self._ended(part))

    # Ending

    async def _ended(self, part: Part) -> None:
        """The shim is gone: read the result, or clean up after it when there is none, and report."""
        directory = self._journal.directory(part)
        self._engine.reap()
        result = self._engine.result(directory)
        if result is None:
            result = await self._lost(part)
        if part.phase == "starting" and result["pid"] is not None:
            self._report_running(part)
        with contextlib.suppress(TimeoutError, PortalAwayError, PortalRefusedError):
            # The end is told after the last words, if the portal takes them quickly.
            await asyncio.wait_for(self._ship_rest(part), LAST_LOG_S)
        report = {key: result[key] for key in ("pid", "exit_code", "signal", "reason", "detail")}
        self._journal.report(part, {**report, "state": "ended", "at": result["ended_at"]}, phase="ended")
        self._forget(part)
        log.info("part ended", **part.name, job=part.job, **report)

    async def _ship_rest(self, part: Part) -> None:
        while await self._shipper.ship(part):
            pass

    async def _lost(self, part: Part) -> dict[str, Any]:
        directory = self._journal.directory(part)
        while True:  # each try blocks for seconds by itself
            try:
                killed = await asyncio.to_thread(self._engine.purge, directory)
                break
            except TimeoutError as error:
                log.error("part does not die", **part.name, reason=str(error))
        detail = f"its shim is gone without a result; {killed} processes were left and killed"
        pid = self._engine.pid(directory)
        return {
            "pid": pid,
            "exit_code": None,
            "signal": None,
            "reason": "lost",
            "detail": detail,
            "ended_at": time.time(),
        }

    def _end_unstarted(self, part: Part, *, reason: str, detail: str) -> None:
        """End a part whose command never ran and, from now on, never will."""
        self._engine.void(self._journal.directory(part))
        self._journal.report(part, {"state": "ended", "reason": reason, "detail": detail}, phase="ended")
        part.logs_done = True
        self._forget(part)
        log.info("part ended unstarted", **part.name, job=part.job, reason=reason, detail=detail)

    def _answer_unknown(self, wanted: Wanted) -> None:
        """A stop for a part that never came here: it can be told ended at once, and must never start."""
        if self.place and part_key(wanted) not in self._begins:
            part = self._claim(wanted, self.place)
            self._end_unstarted(part, reason="stopped", detail="it never started")

    def _stop(self, part: Part, *, grace_s: float, detail: str) -> None:
        directory = self._journal.directory(part)
        if self._engine.life(directory) == "absent" and self._engine.void(directory):
            self._end_unstarted(part, reason="stopped", detail=detail or "it never started")
        elif grace_s < self._stop_grace.get(part.key, float("inf")):
            self._stop_grace[part.key] = grace_s
            log.info("part stopping", **part.name, grace_s=grace_s, why=detail)
            self._engine.stop(directory, grace_s=grace_s, detail=detail)

    def _drop(self, part: Part, *, grace_s: float) -> None:
        """End it without a report: the portal has closed it."""
        if not part.dropped:
            part.dropped = True
            part.reports = []
            self._journal.save(part)
            log.info("part dropped", **part.name, job=part.job)
        self._stop(part, grace_s=grace_s, detail="no longer wanted")

    def _stop_stale(self, part: Part) -> None:
        self._drop(part, grace_s=0.0)

    def _forget(self, part: Part) -> None:
        self._stop_grace.pop(part.key, None)
        self._reporter.leased_until.pop(part.key, None)
        self.close_if_done(part)
        self._reporter.wake()

    def close_if_done(self, part: Part) -> None:
        if part.phase == "ended" and not part.reports and part.logs_done:
            self._journal.close(part)

    # Keeping house

    def tidy(self, *, keep_ended_s: float) -> None:
        """Close what is done and remove what has been closed for long enough."""
        for part in list(self._journal.parts.values()):
            self.close_if_done(part)
            old = part.closed_at is not None and time.time() - part.closed_at > keep_ended_s
            if old and part.phase == "closed" and part.key not in self._wanted:
                self._journal.remove(part)
