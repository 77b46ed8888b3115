"""The agents' long poll as a plain ASGI app: an open poll costs a coroutine here, where an async Django view costs a thread.

GET /api/agent/v1/sync?revision=R&wait=S answers at once when the node's revision is not R, else when it changes or after S
seconds. It is woken through Channels; a lost wake is found by looking at the revision every LOOK_S seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError, InterfaceError, OperationalError

from portal.cluster.models import Node
from portal.cluster.services.contact import node_seen
from portal.foundation.api.errors import plain_error
from portal.foundation.disk import disk_full_error
from portal.foundation.events.relay import group_name
from portal.nodes.base import bearer_secret, node_by_token
from portal.nodes.calls import CALLS
from portal.work.jobs.selectors import parts_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

N = TypeVar("N", int, float)

log = logging.getLogger(__name__)

WAIT_LIMIT_S = 25.0
LOOK_S = 3.0
AWAY_LOOK_S = 1.0


async def sync_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    try:
        await _sync(scope, receive, send)
    except (OperationalError, InterfaceError) as error:
        log.warning("sync: the database does not answer: %s", error)
        refusal = disk_full_error(error) or plain_error(503)
        await _answer(send, refusal.status, refusal.envelope())


async def _sync(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["method"] != "GET":
        await _answer(send, 405, {"error": {"code": "method_not_allowed", "field": None, "detail": "Use GET."}})
        return
    headers = dict(scope["headers"])
    node = await _authenticate(bearer_secret(headers.get(b"authorization", b"")))
    if node is None:
        detail = "This node token is unknown or revoked."
        await _answer(send, 401, {"error": {"code": "bad_token", "field": None, "detail": detail}})
        return
    try:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        revision = _number(query, "revision", int, default="-1", lowest=-1)  # -1: the agent knows nothing yet
        wait_s = min(_number(query, "wait", float, default="0", lowest=0), WAIT_LIMIT_S)
    except ValueError as error:
        await _answer(send, 400, {"error": {"code": "invalid", "field": str(error), "detail": "Use a number from 0."}})
        return
    await _wait(node, revision, wait_s, receive)
    wanted = await _wanted(node.pk)
    await _answer(send, 200, wanted | {"channel": True} if CALLS.take(node.pk) else wanted)


@database_sync_to_async
def _authenticate(secret: str | None) -> Node | None:
    node = node_by_token(secret) if secret else None
    if node is not None:
        try:
            node_seen(node=node)
        except DatabaseError as error:
            # The order is only read, not written: a stop reaches the node on a full disk, too.
            if disk_full_error(error) is None:
                raise
    return node


@database_sync_to_async
def _revision(node_id: int) -> int:
    return Node.objects.values_list("revision", flat=True).get(pk=node_id)


@database_sync_to_async
def _wanted(node_id: int) -> dict[str, Any]:
    return parts_wanted(node_id=node_id)


def _number(query: Mapping[str, list[str]], name: str, kind: Callable[[str], N], *, default: str, lowest: int) -> N:
    """Return a parameter of the query; ValueError, with its name, where it is no number or below the lowest."""
    try:
        value = kind(query.get(name, [default])[0])
    except ValueError:
        raise ValueError(name) from None
    if not value >= lowest:  # a NaN is not
        raise ValueError(name)
    return value


async def _wait(node: Node, revision: int, wait_s: float, receive: Any) -> None:
    """Return when the node's revision is not `revision`, its channel is wanted, the time is over, or the agent is gone."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    gone, called = asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(CALLS.called(node.pk))
    woken: asyncio.Future[Any] | None = None
    layer, group, channel = get_channel_layer(), group_name(f"node:{node.pk}"), ""
    try:
        try:
            channel = await layer.new_channel()
            await layer.group_add(group, channel)
            woken = asyncio.ensure_future(layer.receive(channel))
        except Exception as error:  # noqa: BLE001 - without Redis the poll looks at the database more often
            log.warning("sync: no wake-ups (%s); looking every second", error)
        while await _revision(node.pk) == revision and loop.time() < deadline and not (gone.done() or called.done()):
            look_s = AWAY_LOOK_S if woken is None else LOOK_S
            waiting = [gone, called] if woken is None else [gone, called, woken]
            await asyncio.wait(
                waiting, timeout=max(0.0, min(look_s, deadline - loop.time())), return_when=asyncio.FIRST_COMPLETED
            )
            if woken is not None and woken.done():
                woken = None if woken.exception() else asyncio.ensure_future(layer.receive(channel))
    finally:
        gone.cancel()
        called.cancel()
        if woken is not None:
            woken.cancel()
        if channel:
            await _leave(layer, group, channel)


async def _leave(layer: Any, group: str, channel: str) -> None:
    try:
        await layer.group_discard(group, channel)
    except Exception as error:  # noqa: BLE001 - Redis went away meanwhile; it forgets the group with its connection
        log.debug("sync: could not leave %s: %s", group, error)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Any, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
