"""The caller of the REST API: a bearer token's owner, or the person signed in to the browser's documentation page.

A node's token is of another kind and opens nothing here; the agent API has its own door.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission

from portal.foundation.errors import BerthError, Forbidden
from portal.people.tenants.models import ApiToken
from portal.people.tenants.services import secret_digest

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

    from portal.people.tenants.models import Tenant, User

LAST_USED_PERIOD_S = 60
"""How fresh `last_used_at` is kept: a write for each request would make every read a write."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Unauthorized(BerthError):
    """401: no token, or one that is not valid or no longer valid."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail, field="Authorization", status=401)


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer berth_...`; `request.auth` becomes the ApiToken."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token_find(secret.strip())
        token_touch(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class BrowserSession(SessionAuthentication):
    """The signed-in browser, for the documentation page's try-it; changing requests need the CSRF token."""

    def enforce_csrf(self, request: Any) -> None:
        try:
            # The raw request: the framework's own would parse, and so use up, the body to look for a form's token.
            super().enforce_csrf(getattr(request, "_request", request))
        except PermissionDenied as error:
            detail = "A browser's request needs its CSRF token; programs send `Authorization: Bearer TOKEN`."
            raise Forbidden(detail, code="csrf_failed") from error


def token_find(secret: str) -> ApiToken:
    """Return the usable token of a secret. Raises Unauthorized bad_token or token_expired."""
    return _usable(digest=secret_digest(secret.encode("utf-8", "replace").decode()))


def token_again(token: ApiToken) -> ApiToken:
    """Return the token as it stands now: long requests ask every few seconds. Raises as `token_find` does."""
    return _usable(pk=token.pk)


def _usable(**named: Any) -> ApiToken:
    token = ApiToken.objects.select_related("user", "tenant").filter(**named).first()
    if token is None or token.revoked_at or not token.user.is_active:
        raise Unauthorized("bad_token", "This token is unknown or was revoked; make a new one in the portal.")
    if token.expires_at and token.expires_at <= timezone.now():
        raise Unauthorized("token_expired", "This token has expired; make a new one in the portal.")
    return token


def token_touch(token: ApiToken) -> None:
    """Note that the token is in use, at most once a minute however many requests come at once."""
    now = timezone.now()
    stale = now - timedelta(seconds=LAST_USED_PERIOD_S)
    if token.last_used_at is None or token.last_used_at < stale:
        unseen = Q(last_used_at=None) | Q(last_used_at__lt=stale)
        ApiToken.objects.filter(unseen, pk=token.pk).update(last_used_at=now)


class HasScope(BasePermission):
    """A view names the scope its reads and its changes need: `read_scope`, `write_scope`."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            detail = "Send `Authorization: Bearer TOKEN`; tokens are made in the portal, under your name."
            raise Unauthorized("not_authenticated", detail)
        scope = getattr(view, "read_scope" if request.method in SAFE_METHODS else "write_scope")
        scope_check(user=request.user, token=token_of(request), scope=scope)
        return True


def scope_check(*, user: User, token: ApiToken | None, scope: str | None) -> None:
    """Refuse a token without `scope`; for the scope `operator`, also a person who is no operator. None: any token."""
    if scope == "operator" and not user.is_operator:
        raise Forbidden("Only an operator may do this.", code="operator_only")
    if scope is not None and token is not None and scope not in token.scopes:
        raise Forbidden(f"The token lacks the scope `{scope}`; make one that has it.", code="missing_scope")


def token_of(request: Request) -> ApiToken | None:
    return request.auth if isinstance(request.auth, ApiToken) else None


def tenant_of(request: Request) -> Tenant | None:
    """Return the one tenant to which the request's token is restricted, if it is."""
    token = token_of(request)
    return token.tenant if token else None
