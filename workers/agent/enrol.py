"""How a node comes by its token: once with a join token, ever after from DIR/node.json."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.agent.trust import trust_for
from workers.protocol.client import Backoff, Portal, PortalAwayError, PortalRefusedError
from workers.system import log
from workers.system.files import BrokenFileError, read_record, write_json

if TYPE_CHECKING:
    import ssl

    from workers.agent.settings import AgentSettings
    from workers.protocol.wire import Inventory, Registered


class EnrolError(Exception):
    """The portal does not take this node; the text says why and what to do."""


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
            remedy = "give another --name, or remove that node on the portal first"
            raise EnrolError(f"a node named {settings.name!r} is registered already: {remedy}") from refusal
        raise EnrolError(f"the portal does not take this node: {refusal}") from refusal
    finally:
        await portal.close()


async def enrol(settings: AgentSettings, inventory: Inventory) -> Enrolled:
    """The node's token, registering when there is none yet. Waits while the portal is away. Raises EnrolError."""
    path = settings.dir / "node.json"
    try:
        known = read_record(path, token=str)
    except BrokenFileError as error:
        raise EnrolError(
            f"{error}. Put it back from a copy, or remove it and start with a new join token (the node's old name may be "
            "used again once its token is revoked on the portal)"
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
