"""The parts that all views of the REST API share: right to call, JSON in and out, and the tenancy of a restricted token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.views import APIView

from portal.foundation import checks
from portal.foundation.api.parsers import StrictJSONParser, request_object
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rest_framework.parsers import BaseParser
    from rest_framework.renderers import BaseRenderer
    from rest_framework.request import Request


MAX_KEY_CHARS = 255


class JsonAlways(BaseContentNegotiation):
    """Answer in JSON whatever `Accept` says, so that a browser that opens a path sees the answer."""

    def select_parser(self, request: Request, parsers: Sequence[BaseParser]) -> BaseParser:
        return parsers[0]

    def select_renderer(
        self,
        request: Request,
        renderers: Sequence[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view names the scopes of its reads and its changes; None means that any token will do.

    The settings name the classes that find the caller and check the scopes.
    """

    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = JsonAlways
    metadata_class = None
    read_scope: str | None = None
    write_scope: str | None = None


def body_of(request: Request, *, known: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object of an optional body that may hold `known` names only."""
    found = request_object(request._request, optional=True)  # noqa: SLF001 - the public way to the raw request
    for name in found:
        if name not in known:
            knows = f"it knows {', '.join(known)}" if known else "it takes none"
            shown = checks.quoted(name)
            raise BerthError("unknown_field", f"This request has no field {shown}; {knows}.", field=shown.strip("'"))
    return found


def idempotency_key_of(request: Request) -> str | None:
    """Return the `Idempotency-Key`, if one was sent. Code bad_idempotency_key."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_CHARS or not all("!" <= char <= "~" for char in key):
        detail = f"`Idempotency-Key` must be 1 to {MAX_KEY_CHARS} printable ASCII characters without spaces."
        raise BerthError("bad_idempotency_key", detail, field="Idempotency-Key")
    return key


def reason_of(request: Request) -> str:
    """Return the body's `reason`. People who meet the result later will read it."""
    value = body_of(request, known=["reason"]).get("reason")
    if value is None:
        raise BerthError("required", "Say why: `reason` is missing.", field="reason")
    if isinstance(value, str) and not value.strip():
        raise BerthError("blank", "Say why: `reason` is blank.", field="reason")
    checks.credentials_refuse(value, "reason")
    return checks.text(value, "reason", max_chars=200)
