"""A person's right to one port of a job: by a link that works once, then by a cookie of that origin, asked again and again.

Links live in this process, as the nodes' channels do. The cookie names the person's session at the portal by its row, not
by its key, and is worth nothing once that session, the right or the job has ended.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core import signing
from django.db import DatabaseError, InterfaceError

from portal.foundation.errors import BerthError
from portal.pages.dashboard.terminal.callers import AWAY
from portal.pages.dashboard.terminal.rights import job_for, parts_of, place_in
from portal.people.accounts.models import SignIn
from portal.people.accounts.second import required_missing
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from portal.foundation.job_names import JobName
    from portal.pages.dashboard.terminal.rights import Place
    from portal.people.tenants.models import User

LINK_S, MOST_LINKS, OF_SESSION = 30.0, 5_000, 20
"""Seconds for which a link works, and how many there are: of all, and of one session, whose oldest then goes."""
FRESH_S, MOST_FRESH = 3.0, 5_000
"""Seconds for which an answer about a right holds, and how many are kept."""
SALT = "berth.ports"
NO_COOKIE = "You are not signed in here. Open this page from the page of its job."
OUT = "You have signed out, or may no longer act on this job."


@dataclass(frozen=True, slots=True)
class Visit:
    """`sign_in`: the row of the person's session. `job`: the job's key, which no other job gets, a restored one neither."""

    sign_in: int
    job: str
    number: str
    port: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The person, and the place of the job's part."""

    user: User
    place: Place


class Links:
    """Tokens that each work once. Threads make them, the event loop takes them."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[float, Visit]] = {}

    def make(self, visit: Visit) -> str:
        now = time.monotonic()
        for token in [token for token, (until, _) in list(self._made.items()) if until < now]:
            self._made.pop(token, None)
        mine = [token for token, (_, made) in list(self._made.items()) if made.sign_in == visit.sign_in]
        if len(mine) >= OF_SESSION:
            self._made.pop(mine[0], None)
        if len(self._made) >= MOST_LINKS:
            raise BerthError("busy", "Too many pages of jobs are being opened. Try again in a minute.", status=503)
        token = secrets.token_urlsafe(32)
        self._made[token] = now + LINK_S, visit
        return token

    def take(self, token: str, name: JobName) -> Visit | None:
        """Return the visit that the token is for; None where it is none, was taken before, is old, or is another origin's."""
        until, visit = self._made.pop(token, (0.0, None))
        if visit is None or until < time.monotonic() or (visit.number, visit.port) != (name.number, name.port):
            return None
        return visit


LINKS = Links()


def cookie_make(visit: Visit) -> str:
    return signing.dumps([visit.sign_in, visit.job, visit.number, visit.port], salt=SALT)


def cookie_read(value: str, name: JobName) -> Visit | None:
    """Return the visit; None where the cookie is not ours, too old, or another origin's."""
    try:
        visit = Visit(*signing.loads(value, salt=SALT, max_age=settings.SESSION_COOKIE_AGE))
    except (signing.BadSignature, TypeError):
        return None
    return visit if (visit.number, visit.port) == (name.number, name.port) else None


def visit_check(visit: Visit) -> Seen:
    """Return person and place. Raises BerthError: 403 without session or right, 410 after the job, 503 while none runs."""
    user = _user_of(visit.sign_in)
    if user is None or required_missing(user):
        raise BerthError("signed_out", OUT, status=403)
    try:
        job = job_for(user=user, number=visit.number)
    except BerthError:
        raise BerthError("signed_out", OUT, status=403) from None
    if job.key != visit.job:
        raise BerthError("signed_out", OUT, status=403)
    parts = parts_of(job)
    if not parts:
        if job.state in FINAL:
            raise BerthError("ended", f"Job {job.number} has ended, and this page with it.", status=410)
        raise BerthError("not_running", f"Job {job.number} does not run now.", status=503)
    part = next((each for each in parts if visit.port in each.ports), parts[0])
    return Seen(user, place_in(job, part))


def _user_of(sign_in: int) -> User | None:
    """Return whose session it is, if it still stands and its password is the same."""
    row = SignIn.objects.filter(pk=sign_in).first()
    if row is None:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(row.session_key)
    request: Any = SimpleNamespace(session=store)
    user: Any = get_user(request)
    return user if user.is_authenticated and user.pk == row.user_id else None


class Rights:
    """Answers about rights, each asked of the database again after `FRESH_S`; those who ask at once share one question."""

    def __init__(self) -> None:
        self._asked: dict[Visit, tuple[float, asyncio.Future[Seen]]] = {}

    async def ask(self, visit: Visit) -> Seen:
        """Raises BerthError, also where the database does not answer: a right that cannot be asked for is none."""
        now = asyncio.get_running_loop().time()
        if len(self._asked) >= MOST_FRESH:
            self._asked = {each: asked for each, asked in self._asked.items() if now < asked[0]}
        until, answer = self._asked.get(visit, (0.0, None))
        if answer is None or now >= until:
            answer = asyncio.ensure_future(database_sync_to_async(visit_check)(visit))
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # heard, even if nobody waits
            self._asked[visit] = now + FRESH_S, answer
        try:
            return await asyncio.shield(answer)
        except (DatabaseError, InterfaceError):
            raise BerthError("away", AWAY, status=503) from None

    async def ended(self, visit: Visit, seen: Seen) -> BerthError:
        """Return why the visit is over, when it is: another attempt of the job is another visit."""
        while True:
            await asyncio.sleep(FRESH_S)
            try:
                if (await self.ask(visit)).place.asked != seen.place.asked:
                    return BerthError("ended", "The run of the job that served this has ended.", status=503)
            except BerthError as error:
                return error


RIGHTS = Rights()
