"""The ASGI application of jobs' origins: it checks each request, and passes it on to the job.

Nothing of the portal is answered here, and the portal's own application never sees such a Host.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.foundation.job_names import job_name
from portal.pages.dashboard.ports.answers import page, plain
from portal.pages.dashboard.ports.carrying import WAIT_S, http_carry, use_note
from portal.pages.dashboard.ports.headers import COOKIE, Origin, cookie_of, may_ask, one
from portal.pages.dashboard.ports.sockets import socket_carry
from portal.pages.dashboard.ports.visits import LINKS, NO_COOKIE, RIGHTS, cookie_make, cookie_read
from portal.pages.dashboard.terminal.rights import begun_record
from portal.pages.dashboard.terminal.traffic import TRAFFIC

if TYPE_CHECKING:
    from portal.foundation.job_names import JobName
    from portal.pages.dashboard.ports.visits import Seen, Visit

SIGN_IN = "/.berth/sign-in"
OURS = "/.berth/"
NO_METHODS = {"CONNECT", "TRACE"}


async def ports_application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve a request or WebSocket whose Host lies below the domain of jobs."""
    host = one(scope["headers"], b"host") or ""
    name = job_name(host, settings.JOBS_DOMAIN)
    if scope["type"] == "websocket":
        await receive()
    if name is None:
        await plain(scope, send, 404, "No port of a job has this name.")
        return
    secure = settings.BASE_URL.startswith("https://") or scope["scheme"] in {"https", "wss"}
    origin = Origin("https" if secure else "http", host, name.port)
    if scope["type"] == "http" and scope["path"].startswith(OURS):
        await _own(scope, send, name)
        return
    try:
        visit = _visit(scope, name, origin)
        seen = await RIGHTS.ask(visit)
    except BerthError as error:
        await _refused(scope, send, name, error)
        return
    await _counted(scope, receive, send, visit, seen, origin)


def _visit(scope: dict[str, Any], name: JobName, origin: Origin) -> Visit:
    """Return the visit that the cookie is for. Raises BerthError."""
    headers = scope["headers"]
    if one(headers, b"service-worker") is not None:
        raise BerthError("worker", "A page of a job starts no service worker: it would outlive the job.", status=403)
    visit = cookie_read(cookie_of(headers), name)
    if visit is None:
        raise BerthError("no_cookie", NO_COOKIE, status=403)
    if not may_ask(headers, origin) or (scope["type"] == "websocket" and one(headers, b"origin") is None):
        raise BerthError("elsewhere", "Another page led here. Go on only if you meant to.", status=403)
    if scope.get("method") in NO_METHODS:
        raise BerthError("method", "This method is not carried.", status=405)
    return visit


async def _counted(scope: dict[str, Any], receive: Any, send: Any, visit: Visit, seen: Seen, origin: Origin) -> None:
    who = seen.user.pk, seen.place.job.tenant_id
    if (why := TRAFFIC.take(*who)) is not None:
        await plain(scope, send, 429, why)
        return
    try:
        carry = http_carry if scope["type"] == "http" else socket_carry
        await carry(scope, receive, send, visit, seen, origin)
    finally:
        TRAFFIC.give(*who)


async def _own(scope: dict[str, Any], send: Any, name: JobName) -> None:
    """Sign in by a link: a navigation of the whole window, so that no page can do it out of sight."""
    fetched = {one(scope["headers"], b"sec-fetch-mode"), one(scope["headers"], b"sec-fetch-dest")}
    token = parse_qs(scope["query_string"].decode("latin-1")).get("link", [""])[0]
    right = scope["path"] == SIGN_IN and scope["method"] == "GET" and fetched <= {"navigate", "document", None}
    visit = LINKS.take(token, name) if right else None
    if visit is None:
        await page(
            send, 403, "This link has been used, or is too old. Open the page again from its job.", link=_way(name)
        )
        return
    try:
        seen = await RIGHTS.ask(visit)
        await database_sync_to_async(begun_record)(user=seen.user, place=seen.place, action="job.port", port=visit.port)
        await use_note(seen.place)
    except BerthError as error:
        await _refused(scope, send, name, error)
        return
    except (DatabaseError, InterfaceError):
        await page(send, 503, "The portal's database does not answer.", link=_way(name))
        return
    cookie = f"{COOKIE}={cookie_make(visit)}; Path=/; Secure; HttpOnly; SameSite=Strict"
    # A page, no redirect: the next request then comes from this origin, so the strict cookie goes with it.
    await page(
        send, 200, "Opening.", again_s=0, to="/", link=("/", "Go on"), headers=[(b"set-cookie", cookie.encode())]
    )


async def _refused(scope: dict[str, Any], send: Any, name: JobName, error: BerthError) -> None:
    navigates = scope["type"] == "http" and one(scope["headers"], b"sec-fetch-mode") == "navigate"
    if not navigates:
        await plain(scope, send, error.status, error.detail)
        return
    link = ("/", "Go on to the first page") if error.code == "elsewhere" else _way(name)
    again_s = WAIT_S if error.status == 503 else None
    with contextlib.suppress(OSError):
        await page(send, error.status, error.detail, link=link, again_s=again_s)


def _way(name: JobName) -> tuple[str, str] | None:
    """Return the way back to the job's page."""
    if not settings.BASE_URL:
        return None
    return settings.BASE_URL.rstrip("/") + reverse("job-detail", args=[name.number]), f"Job {name.number}"
