"""Telemetry: read once a second, sent in batches. What could not be sent waits in the window."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from workers.agent.inventory import inventory_real, inventory_virtual, virtual_parse
from workers.protocol.client import PortalRefusedError
from workers.system import log
from workers.telemetry.host import HostSampler
from workers.telemetry.sampler import GpuFound, GpuSampler
from workers.telemetry.sampling import Running, Sampling
from workers.telemetry.simulated import SimulatedSampler
from workers.telemetry.window import Window, telemetry_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.agent.settings import AgentSettings
    from workers.engines import Engine
    from workers.parts.journal import Journal
    from workers.protocol.client import Portal
    from workers.protocol.wire import Inventory
    from workers.system.filework import FileWork


def sampler_for(settings: AgentSettings) -> tuple[GpuSampler, HostSampler | None, Inventory]:
    """Return the sources of figures, and what the node declares. Raises SettingError or GpuFailedError."""
    if settings.virtual is None:
        from workers.telemetry.nvml import NvmlSampler  # late: a virtual node needs no NVML bindings

        sampler = NvmlSampler()
        return sampler, HostSampler(), inventory_real(settings, sampler)
    node = virtual_parse(settings.virtual)
    inventory = inventory_virtual(settings, node)
    found = [
        GpuFound(gpu["index"], gpu["uuid"], inventory["gpu_type"] or "", gpu["memory_mib"]) for gpu in inventory["gpus"]
    ]
    return SimulatedSampler(found, core_share=node.core_percent / 100), None, inventory


class Measuring:
    """Reads the figures and sends them. The portal sets `period_s`."""

    def __init__(self, *, sampler: GpuSampler, host: HostSampler | None, backlog_s: int, files: FileWork) -> None:
        self._files = files
        self._sampling = Sampling(gpus=sampler, host=host)
        self._window = Window(backlog_s)
        self._gpus: dict[str, tuple[int, ...]] = {}
        self.period_s = 1.0
        self.on_refused: Callable[[str], None] = lambda _: None

    async def sample_forever(self, journal: Journal, engine: Engine) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self._window.add(self._sampling.second(time.time(), await self._running(journal, engine)))
            due = max(
                due + self.period_s, loop.time()
            )  # after a late reading the next is one period later; none is made up
            await asyncio.sleep(due - loop.time())

    async def _running(self, journal: Journal, engine: Engine) -> list[Running]:
        parts = [p for p in journal.parts.values() if p.phase == "running"]
        directories = [journal.directory(p) for p in parts]
        try:
            usages = await self._files.run("usage", lambda: [engine.usage(d) for d in directories])
        except OSError:  # the files do not answer or may not be read: this second has no figures
            usages = [None] * len(parts)
        return [
            Running(p.attempt, tuple(p.gpus), use, len(p.cores), tuple(p.response))
            for p, use in zip(parts, usages, strict=True)
        ]

    async def send(self, portal: Portal, *, boot_id: str) -> None:
        """Send everything that waits, in batches. Raises PortalAwayError or PortalRefusedError."""
        while batch := self._window.batch(period_s=self.period_s):
            try:
                await portal.telemetry(telemetry_body(batch, boot_id=boot_id, period_s=self.period_s))
            except PortalRefusedError as refusal:
                if refusal.status != 400:
                    raise
                # The portal would refuse it again, and all later batches would wait behind it: it is dropped.
                log.error("telemetry refused", reason=str(refusal), seconds=len(batch))
                self.on_refused(f"The portal refuses this node's telemetry: {refusal}")
            self._window.drop(batch)
