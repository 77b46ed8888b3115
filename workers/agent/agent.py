"""The agent of one node: `python -m workers.agent --url URL --dir DIR [--token JOIN_TOKEN] ...`.

It asks the portal what should run here (long poll), brings that about, and tells what does. It may be killed at any
time: jobs run on under their shims, and the next agent finds them in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.agent import alive
from workers.agent.disk import NodeDisk
from workers.agent.enrol import EnrolError, enrol
from workers.agent.hold import HeldError, hold_agent
from workers.agent.inventory import virtual_pace
from workers.agent.isolation import isolation_find
from workers.agent.measuring import Measuring, sampler_for
from workers.agent.offline import keep_jobs, stop_all
from workers.agent.settings import AgentSettings, SettingError, arguments_parser, settings_read
from workers.agent.trust import TrustError
from workers.engines.process import ProcessEngine
from workers.parts.journal import Journal
from workers.parts.parts import Parts
from workers.parts.problems import Problems
from workers.parts.records import Records
from workers.parts.reporting import Reporter
from workers.parts.shipping import Shipper
from workers.parts.tools import Tools
from workers.parts.workspace import Workplace
from workers.protocol.client import Backoff, Portal, PortalAwayError, PortalFullError, PortalRefusedError
from workers.system import log
from workers.system.filework import FileWork
from workers.system.modes import entries, put_right
from workers.system.procs import boottime, hide
from workers.telemetry.sampler import GpuFailedError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from workers.protocol.wire import Hello, Inventory
    from workers.system.landlock import Walls

_TIDY_S = 60.0
_DISK_S = 2.0
_MODES_S = 1.0
_FULL_TOLD_S = 300.0


class Agent:
    """A few loops over one portal; each goes on by itself when the portal is away."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        portal: Portal,
        inventory: Inventory,
        measuring: Measuring,
        files: FileWork,
        walls: Walls | None,
    ) -> None:
        self._settings = settings
        self._portal = portal
        portal.on_success = self._note_back
        self._inventory = inventory
        self._walls = walls
        self._measuring = measuring
        self._problems, self._files = Problems(), files
        files.on_slow = lambda about: self._problems.note(f"slow {about}", f"The files of {about} do not answer.")
        files.on_closed = self._open_again
        measuring.on_refused = lambda why: self._problems.note("telemetry", why)
        self._journal = Journal(settings.dir)
        self._engine = ProcessEngine()
        self._engine.on_broken = lambda error: self._problems.note(f"file {error.path}", f"Set aside: {error}.")
        both: dict[str, Any] = {"portal": portal, "journal": self._journal}
        boot = inventory["boot_id"]
        self._reporter = Reporter(**both, engine=self._engine, problems=self._problems, boot_id=boot)
        self._shipper = Shipper(**both, engine=self._engine, files=files, problems=self._problems)
        self._records = Records(**both, files=files, boot_id=boot)
        tools = Tools(
            portal=portal,
            journal=self._journal,
            engine=self._engine,
            reporter=self._reporter,
            shipper=self._shipper,
            records=self._records,
            files=files,
            problems=self._problems,
        )
        tenant_file = settings.dir / "tenant.json"
        self._parts = Parts(tools, tenant_file=tenant_file, trust_tenants=settings.trust_tenants)
        self._hello: Hello | None = None
        self._revision = -1
        self._revoked = False
        self._disk = NodeDisk([self._journal.root, settings.storage_dir], mark_mib=settings.disk_low_mib)
        self._away_since: float | None = None
        self._full_told_at = -_FULL_TOLD_S

    async def run(self) -> None:
        """Until cancelled, or until something here fails unexpectedly."""
        await self._parts.set_aside_broken()
        for failure in await self._files.run("remains", self._journal.sweep, limit_s=None):
            self._problems.note(f"remains {failure.filename}", f"What a job left cannot be removed: {failure}")
        await self._parts.adopt()
        await self._lasting(self._say_hello, once=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_failures())
            for step in (
                self._sync,
                self._report,
                self._logs,
                self._send_records,
                self._look_at_disk,
                self._look_at_modes,
                self._tidy,
            ):
                group.create_task(self._lasting(step))
            group.create_task(self._measuring.sample_forever(self._journal, self._engine))
            group.create_task(self._lasting(self._telemetry))

    async def _watch_failures(self) -> None:
        await self._parts.failed

    async def _lasting(self, step: Callable[[], Awaitable[None]], *, once: bool = False) -> None:
        """Do `step` for ever (or until it worked once), with a pause after each failure."""
        backoff = Backoff(0.2, self._settings.retry_max_s)
        while True:
            try:
                await step()
            except PortalFullError as full:  # it answers: it is not away
                self._note_full(str(full))
                await asyncio.sleep(backoff.next_s())
            except PortalAwayError as away:
                self._note_away(str(away))
                await asyncio.sleep(backoff.next_s())
            except OSError as error:  # a disk without room, or one that fails: jobs run on, and so does the rest
                self._problems.note("disk", f"The agent's own files cannot be read or written: {error}.")
                await asyncio.sleep(backoff.next_s())
            except PortalRefusedError as refusal:
                await asyncio.sleep(self._pause_after(refusal, backoff))
                if refusal.code == "boot_changed" and not once:  # the portal lost our hello, to an older backup perhaps
                    await self._lasting(self._say_hello, once=True)
            else:
                backoff.reset()
                if once:
                    return

    def _note_away(self, why: str) -> None:
        # Its database may be another when it is back, in which the same number of revisions says other things.
        self._revision = -1
        if self._away_since is None:
            self._away_since = time.monotonic()
            log.warning("portal away", reason=why)

    def _note_full(self, why: str) -> None:
        if time.monotonic() >= self._full_told_at + _FULL_TOLD_S:
            self._full_told_at = time.monotonic()
            log.warning("portal takes less", reason=f"{why}: logs, figures and records wait here")

    def _note_back(self) -> None:
        if self._away_since is not None:
            log.info("portal back", after_s=round(time.monotonic() - self._away_since, 1))
        self._away_since, self._revoked = None, False

    def _pause_after(self, refusal: PortalRefusedError, backoff: Backoff) -> float:
        if refusal.status != 401:
            log.error("portal refuses", reason=str(refusal))
            return backoff.next_s()
        if not self._revoked:
            self._revoked = True
            log.error(
                "the portal refuses this node's token: no job is started and leases run out",
                remedy=f"remove {self._settings.dir / 'node.json'} and start with a new join token",
            )
        return self._settings.revoked_retry_s

    # The steps

    async def _say_hello(self) -> None:
        hello = await self._portal.hello(self._inventory)
        self._hello = hello
        self._measuring.period_s = hello["sample_period_s"]
        self._parts.place = Workplace(
            storage=self._settings.storage_dir,
            virtual=self._inventory["virtual"],
            walls=self._walls,
            landlock=self._inventory["isolation"]["landlock"],
            virtual_pace=virtual_pace(self._settings),
            nice=self._settings.nice,
            boot_id=self._inventory["boot_id"],
            node_grace_s=hello["grace_s"],
            lease_grace_s=hello["lease_grace_s"],
        )
        log.info("hello", name=hello["name"], gpus=len(self._inventory["gpus"]), cores=self._inventory["cores"])

    async def _sync(self) -> None:
        asked_at = boottime()
        answer = await self._portal.sync(revision=self._revision, wait_s=self._settings.sync_wait_s)
        again = self._parts.apply(answer["attempts"], asked_at=asked_at)
        self._revision = -1 if again else answer["revision"]

    async def _report(self) -> None:
        await self._reporter.exchange()
        await self._reporter.wait(self._hello["report_period_s"] if self._hello else 5.0)

    async def _logs(self) -> None:
        if not await self._shipper.ship_all():
            await asyncio.sleep(self._settings.log_period_s)

    async def _send_records(self) -> None:
        if not await self._records.send_all():
            await asyncio.sleep(self._hello["report_period_s"] if self._hello else 5.0)

    async def _telemetry(self) -> None:
        await self._measuring.send(self._portal, boot_id=self._inventory["boot_id"])
        await asyncio.sleep(self._hello["report_period_s"] if self._hello else 5.0)

    async def _look_at_modes(self) -> None:
        await self._files.run("modes", self._open_again)
        await asyncio.sleep(_MODES_S)

    def _open_again(self) -> None:
        """Called from any thread."""
        live = [self._journal.directory(part) for part in list(self._journal.parts.values()) if part.phase != "closed"]
        closed = put_right(entries(self._settings.dir, self._journal.root, self._settings.dir / "jobs", *live))
        if closed:
            names = ", ".join(str(path) for path in closed[:3])
            self._problems.note("modes", f"Somebody closed {names} to the agent itself (chmod); opened again.")

    async def _look_at_disk(self) -> None:
        was_low = self._disk.low
        self._reporter.disk = await asyncio.to_thread(self._disk.look)
        if self._disk.low != was_low:
            said = log.warning if self._disk.low else log.info
            said(
                "disk almost full: no new jobs" if self._disk.low else "disk has room again",
                **self._reporter.disk or {},
            )
            self._reporter.wake()
        if self._journal.unsaved:
            self._problems.note(
                "records", "The agent's records cannot be written; it tells of no job's news until they are."
            )
            if self._journal.save_rest():
                self._reporter.wake()
        else:
            self._problems.clear("records")
        if self._disk.low:
            await self._parts.make_room()
        else:
            self._problems.clear("disk")
        await asyncio.sleep(_DISK_S)

    async def _tidy(self) -> None:
        await self._parts.tidy(keep_ended_s=self._settings.keep_ended_s)
        await asyncio.sleep(_TIDY_S)


NO_USE_TO_RETRY = 2
"""Exit code for what only a person can mend; whoever restarts agents leaves this one alone."""


async def _serve(settings: AgentSettings) -> None:
    pipe = alive.descriptor_take()
    signs = None if pipe is None else asyncio.create_task(alive.sign_for_ever(pipe))
    try:
        await _serve_alive(settings)
    finally:
        if signs is not None:
            signs.cancel()


async def _serve_alive(settings: AgentSettings) -> None:
    sampler, host, inventory = sampler_for(settings)
    isolation, walls = isolation_find(settings)
    inventory["isolation"] = isolation
    if isolation["why"]:
        log.warning("isolation of jobs", **isolation)
    enrolled = await enrol(settings, inventory)
    portal = Portal(settings.url, token=enrolled.token, verify=enrolled.verify)
    files = FileWork()
    measuring = Measuring(sampler=sampler, host=host, backlog_s=settings.telemetry_backlog_s, files=files)
    agent = Agent(settings=settings, portal=portal, inventory=inventory, measuring=measuring, files=files, walls=walls)
    task = asyncio.current_task()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, task.cancel)  # type: ignore[union-attr]
    try:
        await agent.run()
    finally:
        await portal.close()


def _complain(sentence: str, code: int = 1) -> int:
    sys.stderr.write(f"workers.agent: {sentence}\n")
    return code


def _offline(given: argparse.Namespace) -> int:
    if given.dir is None or not Path(given.dir).is_dir():
        return _complain("--dir must name the directory of an agent")
    try:
        if given.keep_jobs is not None:
            return keep_jobs(Path(given.dir).resolve(), given.keep_jobs)
        return stop_all(Path(given.dir).resolve(), given.grace)
    except HeldError as error:
        return _complain(str(error))


def main(argv: list[str] | None = None) -> int:
    hide()
    given = arguments_parser().parse_args(argv)
    if given.keep_jobs is not None or given.stop_all:
        return _offline(given)
    try:
        settings = settings_read(given)
        if given.check_isolation:
            sys.stdout.write(json.dumps(isolation_find(settings)[0]) + "\n")
            return 0
        settings.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        put_right(entries(settings.dir, settings.dir / "parts"))
        put_right(entries(*(settings.dir / "parts").glob("*")))
        log.log_setup(node=settings.name)
        with hold_agent(settings.dir), contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
            asyncio.run(_serve(settings))
    except (SettingError, TrustError, EnrolError) as error:
        return _complain(str(error), NO_USE_TO_RETRY)
    except (HeldError, GpuFailedError) as error:
        return _complain(str(error))
    log.info("agent leaves; jobs run on")
    return 0
