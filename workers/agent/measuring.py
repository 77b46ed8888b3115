"""Telemetry: read once a second, sent in batches. Unsent seconds wait in the window."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from workers.portal_client import Portal, PortalRefusedError
from workers.system import log
from workers.system.files import BrokenFileError, write_atomic
from workers.system.gpus import DIRECTORY, mps_daemon
from workers.telemetry.beat import FASTEST_S, SLOWEST_S, Beat, Readings
from workers.telemetry.owners import Shim
from workers.telemetry.sampling import Running, Sampling
from workers.telemetry.simulated import SPEED_FILE, SimulatedSampler
from workers.telemetry.window import Window, telemetry_body

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from workers.agent.sources import Sources
    from workers.controls.usage import Usage
    from workers.engines.process import ProcessEngine
    from workers.parts.journal import Journal
    from workers.protocol.wire import LastReadings, OutsideUse
    from workers.system.filework import FileWork

BACKLOG_S = 600
"""How many seconds of telemetry are kept while the portal is away."""
REFUSED_TOLD_S = 60.0
"""How long the refusal of figures is reported after the last one."""


LEAST_CHANGE = 0.01
"""A smaller change of a part's speed is not written."""


class Speeds:
    """Remembers each part's last speed; a part without one runs at its full speed."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def note(self, speeds: Mapping[str, float]) -> dict[str, float]:
        self._told = {attempt: told for attempt, told in self._told.items() if attempt in speeds}
        news = {a: speed for a, speed in speeds.items() if abs(speed - self._told.get(a, 1.0)) >= LEAST_CHANGE}
        self._told |= news
        return news


def speeds_tell(speeds: Mapping[Path, float]) -> None:
    """Write each part's speed into its job's directory. It may be gone or full: then the next change is written."""
    for directory, speed in speeds.items():
        with contextlib.suppress(OSError, BrokenFileError):
            write_atomic(directory / SPEED_FILE, f"{speed:.3f}\n".encode(), mode=0o644, durable=False)


class Measuring:
    """Reads the figures and sends them. The portal sets `heartbeat_s`, and `known`: the measures that it takes.

    `on_over` hears of each part that is above its grant of GPU memory: its attempt, and what to say of it.
    """

    def __init__(self, *, sources: Sources, files: FileWork, mps: Path = DIRECTORY) -> None:
        self._files = files
        self._sampling = Sampling(host=sources.host, meter=sources.meter, daemon=lambda: mps_daemon(mps))
        sampler = sources.sampler
        self.sampler, self.beat, self.driver_trouble = sampler, Beat(sampler), sampler.trouble()
        self._window = Window(BACKLOG_S)
        self._shims: dict[str, Shim] = {}
        self._last: LastReadings | None = None
        self._due: float | None = None
        self.known: dict[str, list[str]] = {}
        self.on_refused: Callable[[str | None], None] = lambda _: None
        """Why the portal refuses what is sent; None when it has taken all of it for REFUSED_TOLD_S again."""
        self._refused_at: float | None = None
        self.on_readings: Callable[[Readings], None] = lambda _: None
        self.on_over: Callable[[str, str], None] = lambda *_: None
        self._speeds = Speeds()

    @property
    def outside(self) -> list[OutsideUse]:
        return self._sampling.outside

    @property
    def period_s(self) -> float:
        """The time from one sample that travels to the next."""
        return max(1.0, self.beat.period_s)

    def heartbeat(self, period_s: float) -> None:
        self.beat.period_s = min(SLOWEST_S, max(FASTEST_S, period_s))

    async def sample(self, journal: Journal, engine: ProcessEngine) -> None:
        """Take one sample, and wait until the next is due. After a late one that is one period later: none is made up."""
        self.beat.start()
        now = asyncio.get_running_loop().time
        due = now() if self._due is None else self._due
        try:
            await self._sample(journal, engine)
            self._due = max(due + self.period_s, now())
            await asyncio.sleep(self._due - now())
        except asyncio.CancelledError:
            self.beat.stop()
            raise

    async def _sample(self, journal: Journal, engine: ProcessEngine) -> None:
        running = await self._running(journal, engine)
        self.beat.parts = tuple(self._sampling.uses(running).values())
        readings = self.beat.take()
        self._window.add(self._sampling.second(time.time(), running, readings))
        self._last = None
        if readings.last:
            self._last = {"period_s": self.beat.period_s, "gpus": {}}
            for (index, name), values in readings.last.items():
                self._last["gpus"].setdefault(str(index), {})[name] = values
        for attempt, why in self._sampling.grants.over.items():
            self.on_over(attempt, why)
        if isinstance(self.sampler, SimulatedSampler):
            await self._tell_speeds(self.sampler.speeds(self.beat.parts), journal)
        self.on_readings(readings)

    async def _tell_speeds(self, speeds: dict[str, float], journal: Journal) -> None:
        news = self._speeds.note(speeds)
        rooms = {p.attempt: journal.job_directory(p) for p in journal.parts.values() if p.attempt in news}
        if rooms:
            told = {room: news[attempt] for attempt, room in rooms.items()}
            with contextlib.suppress(OSError):  # its files do not answer: the next change is written
                await self._files.run("speeds", speeds_tell, told)

    async def _running(self, journal: Journal, engine: ProcessEngine) -> list[Running]:
        parts = [p for p in journal.parts.values() if p.phase in {"starting", "running"}]
        asked = [(p.attempt, journal.directory(p)) for p in parts]
        try:
            found = await self._files.run("usage", lambda: [self._read_usage(engine, *each) for each in asked])
        except OSError:  # the files do not answer or may not be read: this second has no figures
            found = [(None, self._shims.get(p.attempt)) for p in parts]
        self._shims = {p.attempt: shim for p, (_, shim) in zip(parts, found, strict=True) if shim is not None}
        return [
            Running(
                p.attempt,
                tuple(p.gpus),
                *each,
                len(p.cores),
                response=tuple(p.response),
                traffic=tuple(p.traffic),
                gpu_use=tuple(p.gpu_use),
                gpu_memory_mib=p.gpu_memory_mib,
            )
            for p, each in zip(parts, found, strict=True)
        ]

    def _read_usage(self, engine: ProcessEngine, attempt: str, directory: Path) -> tuple[Usage | None, Shim | None]:
        """Return the part's usage and its shim. The shim's file is read once, before its job can have changed it."""
        shim = self._shims.get(attempt)
        if shim is None and (identity := engine.shim(directory)) is not None:
            shim = Shim(identity.pid, identity.start_ticks, attempt)
        return engine.usage(directory), shim

    async def send(self, portal: Portal, *, boot_id: str) -> None:
        """Send everything that waits, in batches. Raises PortalAwayError or PortalRefusedError."""
        while batch := self._window.batch(period_s=self.period_s):
            body = telemetry_body(batch, boot_id=boot_id, period_s=self.period_s, known=self.known)
            if self._last is not None:
                body["last"] = self._last
            try:
                await portal.telemetry(body)
            except PortalRefusedError as refusal:
                if refusal.status != 400:
                    raise
                # The portal would refuse it again, and all later batches would wait behind it: it is dropped.
                log.error("telemetry refused", reason=str(refusal), seconds=len(batch))
                self.on_refused(f"The portal refuses this node's telemetry: {refusal}")
                self._refused_at = time.monotonic()
            self._window.drop(batch)
        if self._refused_at is not None and time.monotonic() > self._refused_at + REFUSED_TOLD_S:
            self._refused_at = None
            self.on_refused(None)
