"""Send what is due, each message by itself: one that fails waits longer each time and keeps no other waiting."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import smtplib
import time
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING

import httpcore2
from django.db.models import Count, F, Q
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.foundation.leases import lease_held
from portal.foundation.secret_key import SealBroken, unseal
from portal.work.notifications.guarded import LIMIT_S, Refused, call
from portal.work.notifications.mail import mail_address, mail_connection, mail_offered, mail_send
from portal.work.notifications.models import Happening, Hook, Item, Message, SendingLease
from portal.work.notifications.spreading import happenings_spread, messages_make
from portal.work.notifications.words import call_of, mail_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

TRIES = 9
FIRST_REST_S, LONGEST_REST_S = 60, 3600
"""After a failure; doubled by each further one. The last try comes about four hours after the first."""
HOOK_FAILURES = 50
"""In a row, after which a webhook is switched off."""
CALLS_AT_ONCE, MAILS_AT_ONCE = 32, 50
"""The most messages of one pass, of each receiver one: the next, seconds later, sends the rest."""
OF_ONE_TENANT = 4
"""Calls in one pass to webhooks of one tenant or person, however many it has."""
PASS_LIMIT_S = 120
READ = 500
"""The things of one message that are read to be sent."""


def deliver() -> int | None:
    """Work out new messages, and send those that are due; return how many were sent. None: another process does it.

    Where nothing is to be sent, it takes no lease: an idle portal writes nothing.
    """
    due = Message.objects.filter(due_at__lte=timezone.now())
    if not (Happening.objects.exists() or Item.objects.filter(message=None).exists() or due.exists()):
        return 0
    SendingLease.objects.get_or_create(name="sending")
    with lease_held(SendingLease.objects.filter(name="sending"), limit_s=PASS_LIMIT_S) as mine:
        if not mine:
            return None
        happenings_spread()
        messages_make()
        return _calls_send() + _mails_send()


def rest_s(failures: int) -> int:
    """Return how long to wait after this number of failures in a row."""
    return min(LONGEST_REST_S, FIRST_REST_S * 2 ** min(failures - 1, 10))


def _items(message: Message) -> list[Item]:
    return list(message.items.select_related("job__tenant", "job__owner")[:READ])


def _sent(message: Message) -> None:
    now = timezone.now()
    Message.objects.filter(pk=message.pk).update(state=Message.State.SENT, due_at=None, ended_at=now)


def _failed(message: Message, why: str) -> None:
    """Let it wait, or give it up. Called after the try is over: a process that was killed meanwhile tries again."""
    log.warning("notifications: message %s was not taken: %s", message.pk, why)
    tries, now = message.tries + 1, timezone.now()
    if tries >= TRIES:
        values = {"state": Message.State.GIVEN_UP, "due_at": None, "ended_at": now}
    else:
        values = {"due_at": now + timedelta(seconds=rest_s(tries))}
    Message.objects.filter(pk=message.pk).update(tries=tries, **values)


# ---- mail ------------------------------------------------------------------------------------------------------------


def _mails_send() -> int:
    due = Message.objects.filter(due_at__lte=timezone.now(), hook=None).select_related("user")
    rows = list(due.annotate(count=Count("items")).order_by("due_at")[:MAILS_AT_ONCE])
    if not rows:
        return 0
    if not mail_offered():
        now = timezone.now()  # the mail server was taken away: nothing waits for it for ever
        Message.objects.filter(pk__in=[row.pk for row in rows]).update(state="given-up", due_at=None, ended_at=now)
        return 0
    try:
        connection = mail_connection()
        connection.open()
    except (OSError, smtplib.SMTPException, BerthError) as error:
        log.warning("notifications: no mail goes: %s", error)
        Message.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=timezone.now() + timedelta(seconds=60))
        return 0
    sent, ends_at = 0, time.monotonic() + PASS_LIMIT_S / 4
    for row in rows:
        if time.monotonic() > ends_at:
            break
        sent += _mail_send(connection, row)
    try:
        connection.close()
    except (OSError, smtplib.SMTPException) as error:
        log.debug("notifications: the mail server went first: %s", error)
    return sent


def _mail_send(connection: object, message: Message) -> int:
    to = mail_address(message.user) if message.user and message.user.is_active else None
    items = _items(message)
    if to is None or not items:
        Message.objects.filter(pk=message.pk).update(state="given-up", due_at=None, ended_at=timezone.now())
        return 0
    subject, text = mail_of(items, message.count)
    try:
        mail_send(connection, message=message, to=to, subject=subject, text=text)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        _failed(message, type(error).__name__)
        return 0
    _sent(message)
    return 1


# ---- webhooks --------------------------------------------------------------------------------------------------------


def _calls_due() -> list[Message]:
    """Return the oldest message of each webhook that does not rest; of one tenant a few, in turn."""
    now = timezone.now()
    awake = Q(hook__rests_until=None) | Q(hook__rests_until__lte=now)
    due = Message.objects.filter(awake, due_at__lte=now, hook__is_active=True).order_by("due_at")
    chosen: list[Message] = []
    hooks: set[int] = set()
    of_one: dict[tuple[int | None, int | None], int] = {}
    for row in due.select_related("hook__user", "hook__tenant")[: 100 * CALLS_AT_ONCE]:
        owner = (row.hook.tenant_id, row.hook.user_id)
        if row.hook_id not in hooks and of_one.get(owner, 0) < OF_ONE_TENANT:
            hooks.add(row.hook_id)
            of_one[owner] = of_one.get(owner, 0) + 1
            chosen.append(row)
    return chosen[:CALLS_AT_ONCE]


def _calls_send() -> int:
    rows = _calls_due()
    if not rows:
        return 0
    pool = ThreadPoolExecutor(max_workers=len(rows), thread_name_prefix="webhook")
    asked = [pool.submit(_prepared(row)) for row in rows]
    wait(asked, timeout=LIMIT_S + 1)
    # A name server may keep its thread longer than any limit of ours; it connects to nothing after its time.
    pool.shutdown(wait=False, cancel_futures=True)
    answers = [each.result() if each.done() and not each.cancelled() else "no answer in time" for each in asked]
    return sum(_noted(row, answer) for row, answer in zip(rows, answers, strict=True))


def _prepared(message: Message) -> Callable[[], str]:
    """Return the call, with all that it needs read already: its thread asks no database."""
    hook, body = message.hook, json.dumps(call_of(message, _items(message))).encode()
    return lambda: hook_call(url=hook.url, sealed=hook.secret, body=body, delivery=str(message.pk))


def signature(secret: str, *, timestamp: str, body: bytes) -> str:
    """Return the hex HMAC-SHA256 of `timestamp.body`: a receiver with the secret can tell a true, fresh message."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def hook_call(*, url: str, sealed: str, body: bytes, delivery: str) -> str:
    """Call a webhook; return the outcome: `200`, or words. Never more of the answer than its status."""
    try:
        secret = unseal(sealed)
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Berth",
            "Berth-Delivery": delivery,
            "Berth-Timestamp": timestamp,
            "Berth-Signature": f"v1={signature(secret, timestamp=timestamp, body=body)}",
        }
        return str(call(url, body=body, headers=headers))
    except SealBroken:
        return "its secret was sealed with another signing key; make the webhook again"
    except Refused as error:
        return str(error)
    except httpcore2.TimeoutException:
        return "no answer in time"
    except (
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
        OSError,
        ValueError,
    ) as error:
        return "no connection" if isinstance(error, httpcore2.ConnectError | OSError) else "no valid answer"


def taken(answer: str) -> bool:
    return answer.isdigit() and 200 <= int(answer) < 300


def _noted(message: Message, answer: str) -> int:
    mine, now = Hook.objects.filter(pk=message.hook_id), timezone.now()
    if taken(answer):
        _sent(message)
        mine.update(failures=0, rests_until=None, last_answer=answer, last_at=now)
        return 1
    _failed(message, answer)
    rest = timedelta(seconds=rest_s(message.hook.failures + 1))
    mine.update(failures=F("failures") + 1, rests_until=now + rest, last_answer=answer[:100], last_at=now)
    mine.filter(failures__gte=HOOK_FAILURES).update(is_active=False)
    return 0
