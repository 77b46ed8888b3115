"""The agent of one node: `python -m workers.agent --url URL --dir DIR [--token JOIN_TOKEN] ...`.

It asks the portal what should run here (a long poll). It starts and stops parts until that is so, and reports what runs.
It may be killed at any time: jobs run on under their shims, and the next agent finds them in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from workers.agent.allocation import OFF
from workers.agent.checks import CheckScript, NodeDisk
from workers.agent.contact import Contact
from workers.agent.health import NodeHealth
from workers.agent.inventory import Software, virtual_pace
from workers.agent.leaving import Leaving
from workers.engines.process import ProcessEngine
from workers.environments.programs import PROGRAMS
from workers.environments.tidying import Tidying
from workers.networks.networks import Networks
from workers.parts.artefacts import Artefacts
from workers.parts.contents import Contents
from workers.parts.journal import Journal
from workers.parts.parts import Parts
from workers.parts.ports import Ports
from workers.parts.problems import Problems
from workers.parts.records import Records
from workers.parts.reporting import Reporter
from workers.parts.shipping import Shipper
from workers.parts.terminals import Terminals
from workers.parts.tools import Tools
from workers.parts.workspace import Workplace
from workers.system import log
from workers.system.files import entries, fix_modes
from workers.system.filework import FileWork, SlowFilesError
from workers.system.procs import boottime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from workers.agent.isolation import Means
    from workers.agent.measuring import Measuring
    from workers.agent.settings import AgentSettings
    from workers.parts.channel import Channel
    from workers.portal_client import Portal
    from workers.protocol.inventory import Inventory
    from workers.protocol.wire import Hello

_SYNC_WAIT_S = 25.0
"""How long one request for work waits at the portal."""


class Agent:
    """The agent's loops. When the portal does not answer, each loop tries again by itself."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        portal: Portal,
        inventory: Inventory,
        measuring: Measuring,
        files: FileWork,
        means: Means,
        software: Software,
        channel: Channel,
    ) -> None:
        self._settings = settings
        self._portal = portal
        self._inventory = inventory
        self._means, self._software = means, software
        self._measuring = measuring
        self._problems, self._files = Problems(), files
        self._journal = Journal(settings.dir)
        self._engine = ProcessEngine()
        self._hear_of_trouble()
        self._health, self._script = self._health_make()
        tools = self._tools_make()
        ports = Ports(self._engine, files)
        channel.attend(self._journal, Terminals(self._engine, files), ports)
        self._channel = channel
        self._reporter, self._shipper, self._records = tools.reporter, tools.shipper, tools.records
        self._artefacts = tools.artefacts
        self._reporter.health, self._health.on_change = self._health.current, self._reporter.wake
        self._reporter.ports, ports.on_change = ports.known, self._reporter.wake
        tenant_file, trusts = settings.dir / "tenant.json", settings.trust_tenants or means.accounts
        wait_s = settings.artefacts_wait_s
        self._parts = Parts(tools, tenant_file=tenant_file, trust_tenants=trusts, artefacts_wait_s=wait_s)
        measuring.on_over = self._parts.end_over_grant
        self._hello: Hello | None = None
        self._end_sent: float | None = None
        self._revision = -1
        where, reserve = [self._journal.root, settings.storage_dir], self._journal.reserve
        self._disk = NodeDisk(where, mark_mib=settings.disk_low_mib, reserve=reserve)
        self._environments = Tidying(
            software.offer.root, software.offer.limits, files=files, in_use=self._journal.environments
        )
        self._contact = self._contact_make()
        self.leaving = None if settings.allocation == OFF else self._leaving_make()
        self.on_left: Callable[[], object] = lambda: None

    def _leaving_make(self) -> Leaving:
        return Leaving(
            settings=self._settings,
            portal=self._portal,
            journal=self._journal,
            reporter=self._reporter,
            health=self._health,
            boot_id=self._inventory["boot_id"],
            closes_at=self._inventory.get("ends_at"),
        )

    def _tools_make(self) -> Tools:
        """Make the objects that bring parts to the state that the portal wants."""
        settings, files, problems, boot_id = self._settings, self._files, self._problems, self._inventory["boot_id"]
        both: dict[str, Any] = {"portal": self._portal, "journal": self._journal}
        return Tools(
            **both,
            engine=self._engine,
            reporter=Reporter(**both, engine=self._engine, problems=problems, boot_id=boot_id),
            shipper=Shipper(**both, engine=self._engine, files=files, problems=problems),
            records=Records(**both, files=files, boot_id=boot_id),
            artefacts=Artefacts(
                **both,
                files=files,
                problems=problems,
                boot_id=boot_id,
                period_s=settings.artefacts_period_s,
                bytes_s=settings.artefacts_rate * 2**20,
            ),
            files=files,
            problems=problems,
            networks=Networks(self._journal.root, self._means.site, members=self._means.members),
            contents=Contents(
                settings.dir / "contents",
                portal=self._portal,
                files=files,
                limit_gib=settings.uploads_gib,
                spare_mib=settings.disk_low_mib,
            ),
        )

    def _hear_of_trouble(self) -> None:
        """Let files, measuring and engine note what goes wrong with them among the node's problems."""
        note, over = self._problems.note, self._problems.clear
        self._files.on_slow = lambda about: note(
            f"slow {about}", f"Reading or writing the files of {about} takes too long."
        )
        self._files.on_answered = lambda about: over(f"slow {about}")
        self._files.on_closed = self._open_again
        self._measuring.on_refused = lambda why: note("telemetry", why) if why else over("telemetry")
        self._engine.on_broken = lambda error: note(
            f"file {error.path}", f"A file was not as it was written, and is kept under another name: {error}."
        )

    def _health_make(self) -> tuple[NodeHealth, CheckScript | None]:
        """Make what watches the node's health, and the operator's own check if there is one."""
        measuring, settings = self._measuring, self._settings
        driver, is_virtual = measuring.driver_trouble, self._inventory["virtual"]
        health = NodeHealth(beat=measuring.beat, driver_trouble=driver, is_virtual=is_virtual)
        measuring.on_readings = lambda readings: health.check_readings(readings, measuring.outside)
        self._portal.on_skew = health.skew
        if settings.health_check is None:
            return health, None
        return health, CheckScript(settings.health_check, limit_s=settings.health_check_limit_s, health=health)

    def _contact_make(self) -> Contact:
        contact = Contact(
            problems=self._problems,
            retry_max_s=self._settings.retry_max_s,
            token_file=self._settings.dir / "node.json",
        )
        contact.on_away = self._forget_revision
        contact.on_boot_changed = lambda: contact.once(self._say_hello)
        self._portal.on_success = contact.note_back
        return contact

    def _forget_revision(self) -> None:
        # The portal may come back with an older database, where the same revision number stands for another list.
        self._revision = -1
        self._artefacts.forget()

    async def run(self) -> None:
        """Run until cancelled, or until an unexpected error in what jobs need to live."""
        await self._parts.set_aside_broken()
        for failure in await self._files.run("remains", self._journal.sweep, limit_s=None):
            self._problems.note_remains(str(failure.filename), failure)
        await self._parts.adopt()
        self._artefacts.forget()  # the portal may have been restored, or lost files, while this agent was not there
        await self._contact.once(self._say_hello)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_failures())
            if self.leaving:
                group.create_task(self._leave(self.leaving))
            for step in (self._sync, self._report):
                group.create_task(self._contact.for_ever(step))
            for what, step in {
                "logs": lambda: self._send(self._shipper.ship_all, self._settings.log_period_s),
                "records": lambda: self._send(self._records.send_all, self._report_period_s()),
                "artefacts": lambda: self._send(self._artefacts.send_all, self._settings.artefacts_period_s),
                "disk": self._check_disk,
                "modes of files": self._check_modes,
                "tidying": self._tidy,
                "health check": self._check_script,
                "measuring": lambda: self._measuring.sample(self._journal, self._engine),
                "telemetry": self._telemetry,
            }.items():
                group.create_task(self._contact.beside(step, what))

    async def _watch_failures(self) -> None:
        await self._parts.failed

    async def _leave(self, leaving: Leaving) -> None:
        await leaving.leave(await leaving.wait(), self._parts)
        self.on_left()

    def end(self) -> bool:
        """Have an agent in an allocation leave, and call `on_left` then; False where there is nothing to leave."""
        if self.leaving is None or self._hello is None:
            return False
        self.leaving.told.set()
        return True

    # The steps

    async def _say_hello(self) -> None:
        offer = self._software.offer
        self._inventory["software"] = offer.to_wire()
        if self.leaving and self.leaving.closes_at is not None:
            self._inventory["ends_at"] = self.leaving.closes_at
        hello = await self._portal.hello(self._inventory)
        self._hello, self._software.sent = hello, self._inventory["software"]
        self._end_sent = self._inventory.get("ends_at")
        means = self._means.with_software(offer)
        self._measuring.known = hello["measures"]
        self._shipper.together_bytes = hello.get("logs_together_bytes", 0)
        self._measuring.heartbeat(hello["sample_period_s"])
        self._parts.place = Workplace(
            storage=self._settings.storage_dir,
            virtual=self._inventory["virtual"],
            walls=means.walls,
            accounts=means.accounts,
            view=means.view,
            devices=means.devices,
            resolv=means.site.resolv if means.site else None,
            mps=means.mps,
            mps_pipes=None if self._inventory["virtual"] else self._settings.mps_pipes,
            pids_limit=self._settings.pids_limit,
            landlock=self._inventory["isolation"]["landlock"],
            virtual_pace=virtual_pace(self._settings),
            nice=self._settings.nice,
            boot_id=self._inventory["boot_id"],
            node_grace_s=hello["grace_s"],
            lease_grace_s=hello["lease_grace_s"],
            allocation=self._settings.allocation != OFF,
            software=offer,
            programs=self._settings.dir / PROGRAMS,
        )
        log.info("hello", name=hello["name"], gpus=len(self._inventory["gpus"]), cores=self._inventory["cores"])

    async def _sync(self) -> None:
        asked_at = boottime()
        answer = await self._portal.sync(revision=self._revision, wait_s=_SYNC_WAIT_S)
        if "heartbeat_s" in answer:
            self._measuring.heartbeat(answer["heartbeat_s"])
        if answer.get("environments", self._software.wanted) != self._software.wanted:
            self._software.wanted = answer["environments"]
            await self._refresh_software()
        if answer.get("channel"):
            self._channel.open()
        again = self._parts.apply(answer["attempts"], asked_at=asked_at)
        self._revision = -1 if again else answer["revision"]

    async def _refresh_software(self) -> None:
        """Report environments that came or went since the last report; one on a dead mount changes nothing."""
        with contextlib.suppress(SlowFilesError):  # it is among the node's problems
            if await self._files.run("named environments", self._software.refresh):
                await self._say_hello()

    def _report_period_s(self) -> float:
        return self._hello["report_period_s"] if self._hello else 5.0

    async def _report(self) -> None:
        if self.leaving and self.leaving.closes_at != self._end_sent:
            await self._say_hello()
        await self._reporter.exchange()
        await self._reporter.wait(self._report_period_s())

    async def _send(self, send: Callable[[], Awaitable[bool]], period_s: float) -> None:
        """Send once; where nothing more waits, pause until the next turn."""
        if not await send():
            await asyncio.sleep(period_s)

    async def _telemetry(self) -> None:
        await self._measuring.send(self._portal, boot_id=self._inventory["boot_id"])
        await asyncio.sleep(self._report_period_s())

    async def _check_modes(self) -> None:
        await self._files.run("modes", self._open_again)
        await asyncio.sleep(1.0)

    def _open_again(self) -> None:
        """Make the agent's own files accessible again where somebody changed their modes. Any thread may call it."""
        live = [self._journal.directory(part) for part in list(self._journal.parts.values()) if part.phase != "closed"]
        closed = fix_modes(entries(self._settings.dir, self._journal.root, self._settings.dir / "jobs", *live))
        if closed:
            names = ", ".join(str(path) for path in closed[:3])
            self._problems.note(
                "modes", f"The modes of {names} kept the agent itself out (chmod). It has set them right."
            )

    async def _check_disk(self) -> None:
        was_low = self._disk.low
        self._reporter.disk = await asyncio.to_thread(self._disk.read_room)
        if self._disk.low != was_low:
            said = log.warning if self._disk.low else log.info
            figures = dict(self._reporter.disk or {})
            said("disk almost full: no new jobs" if self._disk.low else "disk has room again", **figures)
            self._reporter.wake()
        if self._journal.unsaved:
            self._problems.note(
                "records", "The agent cannot write some jobs' records. It reports no news of these until it can."
            )
            if self._journal.save_rest():
                self._reporter.wake()
        else:
            self._problems.clear("records")
        if self._disk.low:
            await self._parts.make_room()
        else:
            self._problems.clear("disk")
        await asyncio.sleep(2.0)

    async def _check_script(self) -> None:
        if self._script:
            await self._script.run()
        await asyncio.sleep(self._settings.health_check_period_s)

    async def _tidy(self) -> None:
        await self._parts.tidy(keep_ended_s=self._settings.keep_ended_s)
        await self._environments.tidy(room=not self._disk.low)
        await self._refresh_software()
        await asyncio.sleep(60.0)
