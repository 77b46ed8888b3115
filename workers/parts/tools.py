"""The objects that all modules of this room work with. The agent makes them once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from workers.networks.links import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.engines.process import ProcessEngine
    from workers.networks.networks import Networks
    from workers.parts.artefacts import Artefacts
    from workers.parts.contents import Contents
    from workers.parts.journal import Journal
    from workers.parts.part import Part
    from workers.parts.problems import Problems
    from workers.parts.records import Records
    from workers.parts.reporting import Reporter
    from workers.parts.shipping import Shipper
    from workers.portal_client import Portal
    from workers.system.filework import FileWork

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Tools:
    portal: Portal
    journal: Journal
    engine: ProcessEngine
    reporter: Reporter
    shipper: Shipper
    records: Records
    artefacts: Artefacts
    files: FileWork
    problems: Problems
    contents: Contents
    networks: Networks

    async def on_networks(self, about: str, work: Callable[..., None], *args: Any) -> None:
        """Do work on tenants' networks, outside the event loop. A failure is reported, and jobs go on."""
        try:
            await self.files.run(about, work, *args, limit_s=None)
        except NetworkError as error:
            self.problems.note("network", f"Tenants' networks are not as they should be: {error}.")

    async def on_files(self, part: Part, work: Callable[..., _Value], *args: Any) -> _Value:
        """Do work on the part's files outside the event loop, however long it takes: only this part waits for it.

        Without permission, wait until the agent has set modes right.
        """
        while True:
            try:
                return await self.files.run(part.key, work, *args, limit_s=None)
            except PermissionError as error:
                self.problems.note(f"closed {part.key}", f"The agent itself may not use a file: {error}.")
            await asyncio.sleep(1.0)
