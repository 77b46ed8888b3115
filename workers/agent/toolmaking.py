"""Makes the objects that bring parts to the state that the portal wants, from the agent's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workers.networks.networks import Networks
from workers.parts.artefacts import Artefacts
from workers.parts.contents import Contents
from workers.parts.records import Records
from workers.parts.reporting import Reporter
from workers.parts.shipping import Shipper
from workers.parts.tools import Tools

if TYPE_CHECKING:
    from workers.agent.isolation import Means
    from workers.agent.settings import AgentSettings
    from workers.engines import Engine
    from workers.parts.journal import Journal
    from workers.parts.problems import Problems
    from workers.portal_client import Portal
    from workers.system.filework import FileWork


def tools_make(
    settings: AgentSettings,
    *,
    portal: Portal,
    journal: Journal,
    engine: Engine,
    files: FileWork,
    problems: Problems,
    boot_id: str,
    means: Means,
) -> Tools:
    both: dict[str, Any] = {"portal": portal, "journal": journal}
    return Tools(
        **both,
        engine=engine,
        reporter=Reporter(**both, engine=engine, problems=problems, boot_id=boot_id),
        shipper=Shipper(**both, engine=engine, files=files, problems=problems),
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
        networks=Networks(journal.root, means.site, members=means.members),
        contents=Contents(
            settings.dir / "contents",
            portal=portal,
            files=files,
            limit_gib=settings.uploads_gib,
            spare_mib=settings.disk_low_mib,
        ),
    )
