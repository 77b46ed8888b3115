"""How a part begins: it is written into the journal, prepared, leased, and started. A step that fails says why."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from workers.networks.links import NetworkError
from workers.parts.contents import ContentsError, DamagedError, SpecError
from workers.parts.part import Part
from workers.parts.workspace import Workplace, part_environment, part_prepare
from workers.portal_client import PortalAwayError, PortalRefusedError
from workers.protocol.names import part_key
from workers.system import log
from workers.system.files import BrokenFileError, read_record, set_aside, write_json
from workers.system.procs import boottime
from workers.system.room import is_no_room
from workers.telemetry.simulated import GPU_USE, RESPONSE, TRAFFIC, response_parse, traffic_parse, use_parse

if TYPE_CHECKING:
    from workers.parts.ending import Ending
    from workers.parts.tools import Tools
    from workers.protocol.wire import Spec, Wanted

# The pause before the next try to start a part for which the portal gave no lease.
REFUSED_PAUSE_S = 1.0
_LOOK_S = 0.05


class Beginning:
    """The steps from a wanted part to a started shim. `wanted` is the newest list; `Parts` sets it."""

    def __init__(self, tools: Tools, ending: Ending, *, tenant_file: Path, trust_tenants: bool) -> None:
        self._tools = tools
        self._ending = ending
        self._tenant_file = tenant_file
        self._trust_tenants = trust_tenants
        self.wanted: dict[str, Wanted] = {}

    def _still_wanted(self, key: str) -> bool:
        wanted = self.wanted.get(key)
        return wanted is not None and wanted["action"] == "run"

    def claim(self, wanted: Wanted, place: Workplace) -> Part:
        """Write the part into the journal. This comes before everything else."""
        part = Part(
            attempt=wanted["attempt"],
            epoch=wanted["epoch"],
            rank=wanted["rank"],
            job=wanted["job"],
            job_key=wanted["job_key"],
            boot_id=place.boot_id,
            lease_s=wanted["lease_s"],
        )
        self._tools.journal.create(part)
        return part

    async def prepare(self, wanted: Wanted, place: Workplace) -> bool:
        """Prepare the part; True when it can start. Raises PortalAwayError, PortalRefusedError; OSError when the disk is full."""
        key = part_key(wanted)
        part = self._tools.journal.parts.get(key)
        if part is not None and part.phase != "claimed":
            return part.live
        await self._end_older(wanted)
        spec = await self._tools.portal.spec(wanted["attempt"])
        if spec is None or (spec["epoch"], spec["rank"]) != (wanted["epoch"], wanted["rank"]):
            log.info("part no longer wanted", part=key)
            return False
        await self._await_gpus(key, spec)
        if not self._still_wanted(key):  # the portal took it back while we asked for the rest
            return False
        part = part or self.claim(wanted, place)
        return await self._make_ready(part, spec, wanted, place)

    async def _make_ready(self, part: Part, spec: Spec, wanted: Wanted, place: Workplace) -> bool:
        refusal = await self._tools.files.run("tenant", self._tenant_refusal, spec)
        if refusal:
            await self._ending.end_unstarted(part, reason="tenant_not_trusted", detail=refusal)
            return False
        try:
            part.environment = part_environment(spec, place)
            rooms, contents = self._tools.journal.rooms(part), self._tools.contents
            await contents.fetch(spec)
            prepare = partial(part_prepare, rooms, spec, wanted, place, lay=contents.lay)
            await self._tools.files.run(part.key, prepare, limit_s=None)
        except DamagedError as error:
            raise PortalAwayError(str(error)) from error
        except (SpecError, ContentsError, OSError) as error:
            ours = str(self._tools.journal.root.parent)
            is_closed = isinstance(error, PermissionError) and str(error.filename).startswith(ours)
            if is_no_room(error) or is_closed:  # somebody closed the agent's directories (chmod); it opens them again
                raise
            await self._ending.end_unstarted(part, reason="start_failed", detail=str(error))
            return False
        if not part.live:  # it was stopped while it was prepared
            return False
        self._keep_artefacts(part, spec)
        part.secrets = bool(spec.get("secrets"))
        part.gpus, part.cores, part.gpu_memory_mib = spec["gpus"], spec["cores"], spec.get("gpu_memory_mib")
        if place.virtual:
            part.response = list(response_parse(spec["environment"].get(RESPONSE, "")))
            part.gpu_use = list(use_parse(spec["environment"].get(GPU_USE, "")))
            part.traffic = list(traffic_parse(spec["environment"].get(TRAFFIC, ""), cores=len(spec["cores"])))
        if wanted["go"]:
            self._tools.journal.enter(part, "prepared")
        else:
            self._tools.journal.report(part, {"state": "prepared"}, phase="prepared")
            self._tools.reporter.wake()
        log.info("part prepared", **part.name, job=part.job)
        return True

    def _keep_artefacts(self, part: Part, spec: Spec) -> None:
        """Note the part's files to send. Patterns count only from a working directory of the job's own."""
        rules, working = spec.get("artefacts"), spec["working_directory"] or ""
        part.artefacts = None if rules is None else dict(rules)
        if working.startswith("/"):
            part.artefacts = part.artefacts and {**part.artefacts, "patterns": []}
        part.artefacts_from = "/".join(PurePosixPath(working).parts) if not working.startswith("/") else ""

    async def _end_older(self, wanted: Wanted) -> None:
        """End each older attempt of the same job on this node, and wait until it is dead."""
        for part in list(self._tools.journal.parts.values()):
            same_attempt = (part.attempt, part.epoch) == (wanted["attempt"], wanted["epoch"])
            if part.job_key != wanted["job_key"] or same_attempt:
                continue
            if part.live:
                log.warning("older attempt killed", **part.name, job=part.job, newer=wanted["attempt"])
                self._ending.drop(part, grace_s=0.0)
            while part.live:  # noqa: ASYNC110 - rare, and over in milliseconds
                await asyncio.sleep(_LOOK_S)

    async def _await_gpus(self, key: str, spec: Spec) -> None:
        """Wait until the wanted GPUs are free. A part that a restored portal does not know may hold them until its grace ends."""
        wanted, parts = set(spec["gpus"]), self._tools.journal.parts
        while self._still_wanted(key) and any(  # noqa: ASYNC110 - rare, and over with the grace
            part.live and part.dropped and wanted & set(part.gpus) for part in parts.values()
        ):
            await asyncio.sleep(_LOOK_S)

    def _tenant_refusal(self, spec: Spec) -> str | None:
        """Return why this node may not run the tenant's job, None when it may.

        All jobs share one account. So the node serves only the tenant of its first job, unless tenants trust each other.
        """
        if self._trust_tenants:
            return None
        try:
            owner = read_record(self._tenant_file, tenant_id=(int, str), tenant=str)
        except BrokenFileError as error:
            kept = set_aside(self._tenant_file)
            self._tools.problems.note(
                "tenant", f"The file that names this node's tenant is broken ({error}). It is kept as {kept.name}."
            )
            owner = None
        if owner is None:
            write_json(self._tenant_file, {"tenant_id": spec["tenant_id"], "tenant": spec["tenant"]})
            return None
        if owner["tenant_id"] == spec["tenant_id"]:
            return None
        return (
            f"this node runs all jobs under one account, and has run jobs of tenant {owner['tenant']}; "
            "it runs jobs of other tenants only when its agent is started with --trust-tenants"
        )

    async def start(self, part: Part) -> bool:
        """Start the part's shim; True when it did. Raises PortalAwayError, PortalRefusedError; OSError when the disk is full."""
        if part.lease_s is not None and not self._leased(part):
            # The list that names this part may be old, so the portal must give a lease now.
            await self._tools.reporter.exchange()
            if not self._leased(part):
                log.warning("part not started", **part.name, reason="the portal gave no lease")
                await asyncio.sleep(REFUSED_PAUSE_S)
                return False
        if part.phase != "prepared" or not self._still_wanted(part.key):
            return False
        if (secrets := await self._secrets(part)) is None:
            return False
        self._tools.journal.enter(part, "starting")
        return await self.start_shim(part, secrets)

    async def start_shim(self, part: Part, secrets: bytes) -> bool:
        """Start the shim in the part's network; True when it did. Raises OSError when the disk is full."""
        try:
            tools, room = self._tools, self._tools.journal.directory(part)
            begin = tools.networks.begin
            await tools.files.run(part.key, lambda: tools.engine.start(room, secrets, begin(room)), limit_s=None)
        except NetworkError as error:
            self._tools.problems.note("network", f"A tenant's network cannot be made: {error}.")
            why = f"its network cannot be made apart from other tenants': {error}"
            await self._ending.end_unstarted(part, reason="start_failed", detail=why)
            return False
        except OSError as error:
            if is_no_room(error):
                self._tools.journal.enter(part, "prepared")
                raise
            await self._ending.end_unstarted(part, reason="start_failed", detail=f"its shim cannot be started: {error}")
            return False
        return True

    async def _secrets(self, part: Part) -> bytes | None:
        """Ask the portal for the part's secrets; b"" where it has none. None: it cannot start, and was ended if it is wanted."""
        if not part.secrets:
            return b""
        try:
            found = json.dumps(await self._tools.portal.secrets(part.attempt)).encode()
        except PortalRefusedError as refusal:
            if refusal.status not in {400, 404, 409}:
                raise
            if refusal.status != 404:  # else it is wanted here no more
                await self._ending.end_unstarted(part, reason="start_failed", detail=refusal.detail)
            return None
        return found if part.phase == "prepared" and self._still_wanted(part.key) else None

    def _leased(self, part: Part) -> bool:
        return self._tools.reporter.leased_until.get(part.key, 0.0) > boottime()
