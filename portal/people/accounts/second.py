"""A second factor at sign-in: codes by time (TOTP), and recovery codes that work once each; the sign-in's forms ask for it.

Where the setting says so, operators need one: until they have it they get no further than their account page.
"""

from __future__ import annotations

import base64
import secrets
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.http import JsonResponse
from django.shortcuts import redirect
from django.utils import timezone

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Forbidden
from portal.foundation.secret_key import SealBroken, seal
from portal.people.accounts.models import SecondFactor
from portal.people.accounts.sessions import sessions_end
from portal.people.tenants.services import audit_record, secret_digest
from portal.people.tenants.sign_in import network_of, signed_in_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse
    from pyotp import TOTP

    from portal.people.tenants.models import User


STEP_S = 30
WINDOW = 1
"""Steps before and after now whose codes are taken: clocks differ."""
FAILURES, IN_ALL, REST = 5, 20, timedelta(minutes=10)
"""The most wrong codes from an address, or from all, before single codes stop for a time (docs/decisions/0252)."""
RECOVERY_CODES = 10
CODE_CHARS = 40
REFUSED = {
    "wrong_code": "This code is wrong, or was used already. Wait for the next one.",
    "locked": (
        f"Too many codes were wrong. For {REST // timedelta(minutes=1)} minutes give two codes in one line: the present "
        "one, and the next one as soon as it comes. Or give a recovery code."
    ),
}
"""Code of an error -> its message."""


def secret_new() -> str:
    return base64.b32encode(secrets.token_bytes(20)).decode()


def _totp(factor: SecondFactor) -> TOTP:
    """Return the maker of its codes. Only the use of a second factor loads it: each process starts without it."""
    from pyotp import TOTP

    return TOTP(factor.secret)


def factor_of(user: User) -> SecondFactor | None:
    """Return the person's second factor that counts."""
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()


def factor_begin(*, user: User) -> SecondFactor:
    """Make a secret that counts once it is confirmed. One that counts already stays; one that cannot be read goes."""
    begun = SecondFactor.objects.filter(user=user, confirmed_at=None).first()
    if begun is not None and not readable(begun):
        begun.delete()
    return SecondFactor.objects.get_or_create(user=user, defaults={"sealed": seal(secret_new())})[0]


def readable(factor: SecondFactor) -> bool:
    """Say whether the signing key is the one that sealed it."""
    try:
        return bool(factor.secret)
    except SealBroken:
        return False


def factor_uri(factor: SecondFactor) -> str:
    """Return the URL that an authenticator takes in place of a typed secret."""
    return _totp(factor).provisioning_uri(name=factor.user.get_username(), issuer_name="Berth")


def factor_picture(factor: SecondFactor) -> str:
    """Return the same as a square that a phone reads: SVG, of our own making throughout."""
    import segno

    square = segno.make(factor_uri(factor), error="m")
    drawn: str = square.svg_inline(scale=4, border=4, light="#fff", svgclass=None, lineclass=None)
    return drawn


@transaction.atomic
def factor_confirm(*, user: User, code: str, session_key: str | None) -> list[str]:
    """Let the second factor count from now on; return the recovery codes, which are shown once. Other sessions end."""
    factor = SecondFactor.objects.select_for_update().filter(user=user, confirmed_at=None).first()
    steps = () if factor is None else _steps_of(factor, code)
    if factor is None or not steps:
        raise BerthError("wrong_code", "This is not the present code. Is the clock of your phone right?", field="code")
    codes = [f"{secrets.token_hex(4)}-{secrets.token_hex(4)}" for _ in range(RECOVERY_CODES)]
    factor.confirmed_at, factor.last_step, factor.wrong = timezone.now(), steps[-1], []
    factor.recovery = [secret_digest(each) for each in codes]
    factor.save()
    sessions_end(user=user, actor=user, but=session_key)
    audit_record(actor=user, action="second-factor.on", target=f"user:{user.pk}")
    return codes


@transaction.atomic
def factor_end(*, user: User, actor: User) -> bool:
    """Take the second factor away; False when there is none."""
    gone, _ = SecondFactor.objects.filter(user=user).delete()
    if gone:
        audit_record(actor=actor, action="second-factor.off", target=f"user:{user.pk}")
    return bool(gone)


def code_check(*, user: User, code: str, address: str) -> None:
    """Check the code of a sign-in from an address; nothing for a user without a second factor. Each code is taken once.

    Raises BerthError: `code_required`, `wrong_code`, `locked` after too many wrong ones.
    """
    if factor_of(user) is None:
        return
    if not code.strip():
        raise BerthError("code_required", "Give the code of your authenticator too, or a recovery code.", field="code")
    if (refused := _refused(user, code.strip()[:CODE_CHARS], network_of(address))) is not None:
        raise BerthError(refused, REFUSED[refused], field="code")


@transaction.atomic
def _refused(user: User, code: str, network: str) -> str | None:
    """Take a code under the row's lock, so that of two who send it at once one gets in. Return why it is not taken.

    A wrong one is counted; a right one that was taken already is not.
    """
    factor = SecondFactor.objects.select_for_update().get(user=user)
    now = timezone.now().timestamp()
    wrong = [(where, at) for where, at in factor.wrong if abs(now - at) < REST.total_seconds()]
    digest, steps = secret_digest(code.lower()), _steps_of(factor, code)
    if digest in factor.recovery:  # too long to be guessed, as two codes are: taken whatever others sent
        factor.recovery = [each for each in factor.recovery if each != digest]
    elif len(steps) < 2 and _stopped(user, wrong, network):
        return "locked"
    elif steps and steps[0] > factor.last_step:
        factor.last_step = steps[-1]
    elif steps:  # right, but taken already: its sender does not guess
        return "wrong_code"
    else:
        factor.wrong = [*wrong, (network, now)]
        factor.save()
        return "wrong_code"
    factor.wrong = [(where, at) for where, at in wrong if where != network]
    factor.save()
    return None


def _stopped(user: User, wrong: list[tuple[str, float]], network: str) -> bool:
    """Say whether single codes are stopped there: a stranger with many addresses stops the owner's own place last."""
    here = sum(where == network for where, _ in wrong)
    return here >= FAILURES or (len(wrong) >= IN_ALL and not signed_in_at(user.get_username(), network))


def _steps_of(factor: SecondFactor, code: str) -> tuple[int, ...]:
    """Return the time step whose code it is, or the two steps in a row whose codes they are; none for a wrong one."""
    try:
        totp, now = _totp(factor), int(time.time()) // STEP_S
    except SealBroken:  # the signing key was replaced: recovery codes still work
        return ()
    digits = code.replace(" ", "")
    if not (digits.isascii() and digits.isdigit()):
        return ()
    many = 2 if len(digits) == 2 * totp.digits else 1
    for last in range(now - WINDOW, now + WINDOW + 1):
        steps = tuple(range(last - many + 1, last + 1))
        if secrets.compare_digest("".join(map(totp.generate_otp, steps)), digits):
            return steps
    return ()


OPEN = ("/account/", "/logout", "/login", "/static/", "/help/", "/healthz")
DETAIL = "Operators of this Berth need a second factor: set it up on your account page."


def required_missing(user: User) -> bool:
    """Say whether the person must have a second factor and has none. A query only where the setting is on."""
    return bool(env("BERTH_OPERATORS_SECOND_FACTOR") and user.is_operator and factor_of(user) is None)


class SecondFactorRequired:
    """Sends an operator without a second factor to the account page; of REST by browser session it answers 403."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Only in REST a token is asked for instead of the session, where the header is a bearer's.
        by_token = request.path.startswith("/api/") and request.headers.get("Authorization", "").startswith("Bearer ")
        if request.path.startswith(OPEN) or by_token:
            return self.get_response(request)
        if not env("BERTH_OPERATORS_SECOND_FACTOR") or not request.user.is_authenticated:
            return self.get_response(request)
        if not required_missing(request.user):
            return self.get_response(request)
        if request.path.startswith("/api/"):
            refused = Forbidden(DETAIL, code="second_factor_required")
            return JsonResponse(refused.envelope(), status=refused.status)
        return redirect("account")
