"""Starts and stops the parts of this node as the portal wants. All of it runs in one asyncio loop, so it needs no locks."""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import TYPE_CHECKING, Any

from workers.parts.adjusting import Adjusting
from workers.parts.beginning import Beginning
from workers.parts.ending import Ending
from workers.parts.problems import MOST_FAULTS, is_faulty, note_faults
from workers.parts.reconcile import Action, decide, forgotten
from workers.portal_client import Backoff, PortalAwayError, PortalRefusedError
from workers.protocol.names import part_key
from workers.system import log
from workers.system.procs import boot_id, boottime

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from workers.parts.part import Part
    from workers.parts.tools import Tools
    from workers.parts.workspace import Workplace
    from workers.protocol.wire import Wanted

# A shim that has not started by then never will: its interpreter is broken, or the disk is full.
SHIM_UP_S = 15.0
FIRST_LOOK_S, LAST_LOOK_S = 0.01, 0.25
"""A shim that starts is looked for ever more seldom: on a busy machine the looks would take what it needs to start."""


class Parts:
    """Acts on the portal's lists of parts, and follows each part until it has ended."""

    def __init__(self, tools: Tools, *, tenant_file: Path, trust_tenants: bool, artefacts_wait_s: float = 0.0) -> None:
        self._tools = tools
        self._ending = Ending(tools, self._spawn)
        self._ending.artefacts_wait_s = artefacts_wait_s
        self._adjusting = Adjusting(tools, self._spawn)
        self._beginning = Beginning(tools, self._ending, tenant_file=tenant_file, trust_tenants=trust_tenants)
        self._begins: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: dict[str, int] = {}
        self._stopped: set[str] = set()
        self.place: Workplace | None = None  # known once the portal has said hello
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def adopt(self) -> None:
        """Take over every part that an earlier agent left, in the state that its directory shows."""
        for part in [p for p in self._tools.journal.parts.values() if p.live]:
            with note_faults(part.key, self._tools.journal):
                await self._adopt(part)
        await self._tools.on_networks("networks", self._tools.networks.write_rules)

    async def _adopt(self, part: Part) -> None:
        engine, directory = self._tools.engine, self._tools.journal.directory(part)
        life = await self._tools.on_files(part, engine.life, directory)
        log.info("part adopted", **part.name, phase=part.phase, life=life)
        if life == "absent" and part.boot_id != boot_id():
            detail = "the machine was restarted before it began"
            await self._ending.end_unstarted(part, reason="lost", detail=detail)
        elif life != "absent":
            shim = await self._tools.on_files(part, engine.shim, directory)
            if life == "alive" and shim is not None:
                await self._tools.on_networks(part.key, self._tools.networks.adopt, directory, shim.pid)
            self._spawn(part.key, self._follow(part))
        elif part.phase == "starting" and part.secrets:
            # Only the portal knows them, so it is started as if for the first time.
            self._tools.journal.enter(part, "prepared")
        elif part.phase == "starting":
            # Its shim may be starting at this moment. A second shim does no harm, because only one gets the lock.
            await self._beginning.start_shim(part, b"")
            self._spawn(part.key, self._follow(part))

    async def set_aside_broken(self) -> None:
        """Give up the parts whose records are broken, those that run without a record, and those that end agent after agent."""
        journal = self._tools.journal
        broken = journal.broken | await self._tools.files.run("parts", self._find_unrecorded, limit_s=None)
        for name, why in broken.items():
            said = f"The record of part {name} cannot be read ({why}), so the part is lost."
            await self._set_aside(name, f"record {name}", said)
        for part in [each for each in journal.parts.values() if each.live and is_faulty(each)]:
            await self._give_up(part)

    def _find_unrecorded(self) -> dict[str, str]:
        journal, life = self._tools.journal, self._tools.engine.life
        known = journal.parts.keys() | journal.broken.keys()
        return {d.name: "it is gone" for d in journal.root.iterdir() if d.name not in known and life(d) == "alive"}

    async def _give_up(self, part: Part) -> None:
        """End a part that agent after agent ended by."""
        why = f"its node's agent failed at it {MOST_FAULTS} times within an hour"
        journal, subject = self._tools.journal, f"part {part.key}"
        try:
            await self._set_aside(part.key, subject, f"Part {part.key} is lost: {why}.")
        except Exception as error:  # noqa: BLE001 - logged; a part that may still run is not reported as lost, and never begun again
            log.error("part not given up", **part.name, traceback="".join(traceback.format_exception(error)))
            self._tools.problems.note(subject, f"Part {part.key} is left alone: {why}, and cannot end it: {error!r}.")
            journal.broken[part.key] = why  # its files are kept
            del journal.parts[part.key]
            return
        part.logs_done = True
        journal.report(part, {"state": "ended", "reason": "lost", "detail": why}, phase="ended")

    async def _set_aside(self, name: str, subject: str, said: str) -> None:
        """Give up a part: end its processes, keep its directory under another name, and tell why."""
        journal, engine = self._tools.journal, self._tools.engine
        killed = await self._tools.files.run(name, engine.abandon, journal.root / name, limit_s=None)
        await self._tools.on_networks(name, self._tools.networks.end, name)
        kept = await self._tools.files.run(name, journal.set_aside, name)
        self._tools.problems.note(subject, f"{said} Its files are kept in {kept}.")
        log.warning("part set aside", part=name, killed=killed)

    def apply(self, wanted: list[Wanted], *, asked_at: float) -> bool:
        """Act on a whole new list, requested at `asked_at` (seconds since boot). True: request the list again at once.

        A list may lack what was reported after its request. Only a list requested after the report proves that the portal
        has forgotten it.
        """
        if self._ending.leaves:
            return False
        self._beginning.wanted = {part_key(w): w for w in wanted}
        for item in wanted:
            part = self._tools.journal.parts.get(part_key(item))
            if part is not None and part.dropped and part.job_key == item["job_key"]:
                part.dropped = False  # an older list, from before a restore, had dropped it: its end is wanted again
                self._tools.journal.save(part)
        parts = self._tools.journal.parts
        behind = forgotten(wanted, parts)
        sure = behind & self._tools.reporter.told_before(asked_at)
        for action in decide(wanted, parts, retell=sure):
            with note_faults(action.key, self._tools.journal):
                self._act(action)
        for item in wanted:
            part = parts.get(part_key(item))
            if part is not None and part.job_key == item["job_key"]:
                with note_faults(part.key, self._tools.journal):
                    self._adjusting.want(part, item)
        return behind != sure

    async def tidy(self, *, keep_ended_s: float) -> None:
        await self._ending.tidy(keep_ended_s=keep_ended_s, wanted=set(self._beginning.wanted))
        await self._tools.on_networks("networks", self._tools.networks.keep)

    def _act(self, action: Action) -> None:
        part = self._tools.journal.parts.get(action.key)
        if action.kind in {"prepare", "start"}:
            if action.key not in self._begins:
                self._begins.add(action.key)
                self._spawn(action.key, self._begin(action.key)).add_done_callback(
                    lambda _: self._act_again(action.key)
                )
        elif action.kind == "answer" and action.wanted:
            # The node never had the part: report its end at once. From then on it cannot start.
            if self.place and part_key(action.wanted) not in self._begins:
                unknown = self._beginning.claim(action.wanted, self.place)
                end = self._ending.end_unstarted(unknown, reason="stopped", detail="it never started")
                self._spawn(unknown.key, end)
        elif action.kind == "stop" and part and action.wanted:
            self._ending.stop(part, grace_s=action.wanted["grace_s"], detail=action.wanted["stop_reason"] or "")
        elif action.kind == "retell" and part:
            self._ending.retell(part)
        elif action.kind == "disown" and action.wanted:
            self._tools.reporter.disown(action.wanted)
        elif action.kind == "drop" and part:
            self._ending.drop(part, grace_s=self.place.node_grace_s if self.place else 0.0)

    def _act_again(self, key: str) -> None:
        """Do what the portal asked of this part meanwhile. Preparing it again waits for the next list."""
        self._begins.discard(key)
        for action in decide(list(self._beginning.wanted.values()), self._tools.journal.parts):
            if action.key == key and action.kind != "prepare":
                self._act(action)

    def _spawn(self, key: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` on a part as a task. An unexpected error in it ends the agent; the next agent adopts all parts."""
        task = asyncio.get_running_loop().create_task(self._work(key, work))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def _work(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        with note_faults(key, self._tools.journal):
            await work

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def _begin(self, key: str) -> None:
        """Prepare the part and, when the portal says so, start it. Try again after each failure as long as it is wanted."""
        backoff, refused = Backoff(0.2, 5.0), Backoff(1.0, 30.0)
        while (wanted := self._beginning.wanted.get(key)) and wanted["action"] == "run" and self.place:
            try:
                await self._begin_once(wanted, self.place)
            except PortalAwayError:
                await asyncio.sleep(backoff.next_s())
                continue
            except PortalRefusedError as refusal:
                log.warning("part not begun", part=key, reason=str(refusal))
                await asyncio.sleep(refused.next_s())
                continue
            except OSError as error:  # the disk is full; preparing begins anew
                log.warning("part not begun", part=key, reason=str(error))
                await asyncio.sleep(refused.next_s())
                continue
            return

    async def _begin_once(self, wanted: Wanted, place: Workplace) -> None:
        if not await self._beginning.prepare(wanted, place):
            return
        newest = self._beginning.wanted.get(part_key(wanted), wanted)  # `go` may have come meanwhile
        part = self._tools.journal.parts[part_key(wanted)]
        if newest["go"] and await self._beginning.start(part):
            await self._follow(part)

    async def _follow(self, part: Part) -> None:
        """Wait until the shim has started its job, then watch it; or end the part when it has already ended."""
        engine, directory = self._tools.engine, self._tools.journal.directory(part)
        give_up_at, looks = boottime() + SHIM_UP_S, Backoff(FIRST_LOOK_S, LAST_LOOK_S)
        while part.live:
            life = await self._tools.on_files(part, engine.life, directory)
            if life in {"ended", "lost"}:
                await self._ending.end_started(part)
            elif life == "void":
                await self._ending.end_unstarted(part, reason="stopped", detail="it never started")
            elif life == "alive" and (job := await self._tools.on_files(part, engine.job, directory)) is not None:
                if job.get("building"):
                    await asyncio.sleep(LAST_LOOK_S)
                    continue
                await self._ending.report_running(part)
                await self._watch(part)
                return
            elif life == "absent" and boottime() > give_up_at and await self._void(part):
                text = await self._tools.on_files(part, engine.last_words, directory)
                detail = f"the shim did not start: {text}"
                await self._ending.end_unstarted(part, reason="start_failed", detail=detail)
            else:
                await asyncio.sleep(looks.next_s())

    async def _void(self, part: Part) -> bool:
        """Close a part whose shim did not start. False when it did start after all, or when the disk is full: then try later."""
        try:
            return await self._tools.on_files(part, self._tools.engine.void, self._tools.journal.directory(part))
        except OSError as error:
            log.warning("part not closed", **part.name, reason=str(error))
            await asyncio.sleep(1.0)
            return False

    def stop_all(self, *, grace_s: float, detail: str) -> None:
        """Begin no part any more, and stop those that live. Call it again for those that were being made ready."""
        self._beginning.wanted, self._ending.leaves = {}, detail
        for part in [
            each for each in self._tools.journal.parts.values() if each.live and each.key not in self._stopped
        ]:
            self._stopped.add(part.key)
            self._ending.stop(part, grace_s=grace_s, detail=detail)

    def end_over_grant(self, attempt: str, detail: str) -> None:
        """End the attempt's part here, which takes more of a shared GPU's memory than it was granted."""
        for part in list(self._tools.journal.parts.values()):
            if part.attempt == attempt and part.live:
                self._ending.end_over_grant(part, detail)

    async def make_room(self) -> None:
        """Remove the files of closed parts' jobs before their time, because the disk is almost full."""
        await self._ending.make_room(wanted=set(self._beginning.wanted))

    async def _watch(self, part: Part) -> None:
        """Have the event loop tell when the shim ends. That works for the shim of an earlier agent too."""
        shim = await self._tools.on_files(part, self._tools.engine.shim, self._tools.journal.directory(part))
        descriptor = shim.open_pidfd() if shim else None
        if descriptor is None:
            self._spawn(part.key, self._ending.end_started(part))
            return
        self._adjusting.follow(part)
        self._watched[part.key] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._on_shim_end, part)

    def _on_shim_end(self, part: Part) -> None:
        descriptor = self._watched.pop(part.key)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._spawn(part.key, self._ending.end_started(part))
