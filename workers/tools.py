"""What every module that handles parts works with; made once by the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.client import Portal
    from workers.engines import Engine
    from workers.filework import FileWork
    from workers.journal import Journal
    from workers.problems import Problems
    from workers.records import Records
    from workers.reporting import Reporter
    from workers.shipping import Shipper


@dataclass(frozen=True, slots=True)
class Tools:
    portal: Portal
    journal: Journal
    engine: Engine
    reporter: Reporter
    shipper: Shipper
    records: Records
    files: FileWork
    problems: Problems
