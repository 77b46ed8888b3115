"""`/ws/jobs/{number}/terminal`: a socket, carried to a shell in the job by its node's channel.

Binary messages are what is typed and shown. Text messages are JSON: the other end sends `{"columns", "rows"}`; it gets
`{"state": "opening" | "open"}`, and at the end `{"state": "ended", "code", "detail", "exit_code"}`.

A browser has its session. Only a page of this very origin may open it: a foreign page could otherwise type in the
name of the user. A program has a token, and no cookie counts. It says first `{"columns", "rows", "command", "plain"}`,
each of which may be left out, or `{"ssh": KEY, "user"}` for a server of ssh that lets this key in, and hears in words why
nothing opens. A command is no part of the address: addresses are written into logs on the way.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from portal.foundation.api.sockets import SIGNED_OUT, TOO_MANY, own_pages_only, socket_give, socket_take
from portal.foundation.errors import BerthError
from portal.pages.dashboard.terminal.callers import ASKED_S, AWAY, Caller, program_serve
from portal.pages.dashboard.terminal.session import ended_tell, json_of, size_of, terminal_carry
from portal.people.accounts.second import required_missing
from workers.protocol.frames import SSH_KEY, SSH_USER, is_shaped

MOST_COMMAND = 2048
"""Bytes of a command; a frame to the node holds 4 KiB."""
REFUSED = 4400


async def terminal_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Take a program by its token, and a browser by its session."""
    if b"authorization" in dict(scope["headers"]):
        await program_serve(scope, receive, send, _asked_for)
    else:
        await _BY_SESSION(scope, receive, send)


async def _by_session(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await receive()
    user = scope["user"]
    if not user.is_authenticated or not same_origin(scope) or await database_sync_to_async(required_missing)(user):
        await send({"type": "websocket.close", "code": SIGNED_OUT})
        return
    caller = Caller(scope, user)
    try:
        place = await database_sync_to_async(caller.place)()
    except (BerthError, DatabaseError, InterfaceError):
        await send({"type": "websocket.close", "code": REFUSED})
        return
    if not socket_take(user.pk):
        await send({"type": "websocket.close", "code": TOO_MANY})
        return
    try:
        await send({"type": "websocket.accept"})
        await terminal_carry(caller, receive, send, place, {})
    finally:
        socket_give(user.pk)


async def _asked_for(caller: Caller, receive: Any, send: Any) -> None:
    try:
        async with asyncio.timeout(ASKED_S):
            message = await receive()
        if message["type"] != "websocket.receive":
            return
        asked = asked_of(json_of(message.get("text") or ""))
        place = await database_sync_to_async(caller.place)()
    except TimeoutError:
        await ended_tell(send, "invalid", f"Nothing was asked for within {ASKED_S:g} seconds.")
    except BerthError as error:
        await ended_tell(send, error.code, error.detail)
    except (DatabaseError, InterfaceError):
        await ended_tell(send, "away", AWAY)
    else:
        await terminal_carry(caller, receive, send, place, asked)


def asked_of(said: Any) -> dict[str, Any]:
    """Return the request to the node beside the place. Raises BerthError."""
    if not isinstance(said, dict):
        raise BerthError("invalid", "The first message is a JSON object: columns, rows, command, plain.")
    if "ssh" in said:
        return _ssh_of(said)
    command, plain = said.get("command"), said.get("plain", False)
    if not isinstance(command, str | None) or command == "" or "\0" in (command or ""):
        raise BerthError("invalid", "command must be a text, or be left out for a shell.", field="command")
    if command is not None and len(command.encode(errors="replace")) > MOST_COMMAND:
        detail = f"command has more than {MOST_COMMAND} bytes; put it into a file of the job's and run that."
        raise BerthError("invalid", detail, field="command")
    if not isinstance(plain, bool) or (plain and command is None):
        raise BerthError("invalid", "plain is true or false, and true only with a command.", field="plain")
    columns, rows = size_of(said) or (80, 24)
    return {"columns": columns, "rows": rows, "command": command, "plain": plain}


def _ssh_of(said: dict[str, Any]) -> dict[str, Any]:
    key, user = said["ssh"], said.get("user")
    if not is_shaped(key, SSH_KEY):
        raise BerthError(
            "invalid", "ssh must be one public key, made by ssh-keygen -t ed25519, without a comment.", field="ssh"
        )
    if not is_shaped(user, SSH_USER):
        raise BerthError(
            "invalid", "The account's name for ssh has letters, digits and ._@- (say `User NAME`).", field="user"
        )
    return {"kind": "ssh", "key": key, "user": user}


def same_origin(scope: dict[str, Any]) -> bool:
    """Say whether the page that opens the socket is one of this portal, its port included."""
    headers = dict(scope["headers"])
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1")).netloc
    own = {headers.get(b"host", b"").decode("latin-1"), urlsplit(settings.BASE_URL).netloc}
    return bool(origin) and origin in own


_BY_SESSION = own_pages_only(AuthMiddlewareStack(_by_session))
