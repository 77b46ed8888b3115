"""How a node gets its token: the first time with a join token, later from DIR/node.json."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.agent.trust import trust_for
from workers.portal_client import Backoff, Portal, PortalAwayError, PortalRefusedError
from workers.system import log
from workers.system.files import BrokenFileError, read_record, write_json

if TYPE_CHECKING:
    import ssl

    from workers.agent.settings import AgentSettings
    from workers.protocol.inventory import Inventory
    from workers.protocol.wire import Registered


class EnrolError(Exception):
    """The portal does not accept this node. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    token: str
    verify: ssl.SSLContext | bool


async def _trust(settings: AgentSettings, backoff: Backoff) -> ssl.SSLContext | bool:
    while True:
        try:
            return trust_for(
                settings.url, ca_sha256=settings.ca_sha256, insecure=settings.insecure, directory=settings.dir
            )
        except OSError as error:
            log.warning("portal away", reason=str(error))
            await asyncio.sleep(backoff.next_s())


async def _register(settings: AgentSettings, inventory: Inventory, verify: ssl.SSLContext | bool) -> Registered:
    backoff = Backoff(0.2, settings.retry_max_s)
    portal = Portal(settings.url, token=settings.token or "", verify=verify)
    try:
        while True:
            try:
                return await portal.register(inventory)
            except PortalAwayError as away:
                log.warning("portal away", reason=str(away))
                await asyncio.sleep(backoff.next_s())
    except PortalRefusedError as refusal:
        if refusal.code == "name_taken":
            remedy = "choose another --name, or remove that node on the portal first"
            raise EnrolError(f"the portal already knows a node named {settings.name!r}: {remedy}") from refusal
        raise EnrolError(f"the portal does not accept this node: {refusal}") from refusal
    finally:
        await portal.close()


async def enrol(settings: AgentSettings, inventory: Inventory) -> Enrolled:
    """Return the node's token; register the node when it has none. Waits while the portal is away. Raises EnrolError."""
    path = settings.dir / "node.json"
    try:
        known = read_record(path, token=str)
    except BrokenFileError as error:
        raise EnrolError(
            f"{error}. Restore it from a copy. Or remove it, revoke the node's token on the portal, and start the agent "
            "with a new join token; then the node may have its old name again"
        ) from error
    if known is None and not settings.token:
        raise EnrolError("this node has no token yet: give a join token with --token")
    verify = await _trust(settings, Backoff(0.2, settings.retry_max_s))
    if known is None:
        answer = await _register(settings, inventory, verify)
        known = {"url": settings.url, "node": answer["node"], "name": answer["name"], "token": answer["token"]}
        write_json(path, known)
        log.info("registered", name=answer["name"])
    return Enrolled(known["token"], verify)
