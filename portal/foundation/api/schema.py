"""The OpenAPI document: how to sign in, the shape of errors, and the helpers by which views describe themselves."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.plumbing import get_lib_doc_excludes
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework import serializers

from portal.foundation.api.base import DEFAULT_PAGE_SIZE, MAX_KEY_CHARS, MAX_PAGE_SIZE, ApiView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rest_framework.request import Request


@functools.cache
def document() -> bytes:
    """Return the OpenAPI document as JSON, made once a process: that takes half a second, and all are given the same."""
    made: bytes = OpenApiJsonRenderer().render(SchemaGenerator().get_schema(request=None, public=True))
    return made


class SchemaView(SpectacularJSONAPIView):
    """Open to all, so it must cost nothing."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        told = {"Content-Disposition": 'inline; filename="Berth.json"'}
        return HttpResponse(document(), content_type=request.accepted_media_type, headers=told)


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "portal.people.tenants.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token made in the portal: `berth_...`."}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "portal.people.tenants.authentication.BrowserSession"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "The signed-in browser."}


class NodeScheme(OpenApiAuthenticationExtension):
    target_class = "portal.nodes.base.NodeToken"
    name = "node"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A node's own token, for its agent only."}


class BridgeScheme(OpenApiAuthenticationExtension):
    target_class = "portal.nodes.bridge.BridgeToken"
    name = "bridge"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A bridge's own token, for its partition only."}


class ErrorBody(serializers.Serializer):
    code = serializers.CharField(help_text="A word for programs. A code never changes its meaning.")
    field = serializers.CharField(allow_null=True, help_text="The field that is wrong; null: the request as a whole.")
    detail = serializers.CharField(help_text="A sentence that says what is wrong and what to do.")


class Error(serializers.Serializer):
    error = ErrorBody()


class RawSchema(serializers.Serializer):
    """A body whose schema is written out: no serializer checks it."""

    schema: Mapping[str, Any] = {}


class RawSchemaExtension(OpenApiSerializerExtension):
    target_class = "portal.foundation.api.schema.RawSchema"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: str) -> Any:
        return self.target.schema

    def get_name(self, *_: Any) -> str:
        return type(self.target).__name__


def bases_untold() -> list[type]:
    """Return the classes whose docstrings are for people who work on Berth: they describe no operation to its callers."""
    return [ApiView, *get_lib_doc_excludes()]


PAGING = (
    OpenApiParameter("page", {"type": "integer", "minimum": 1, "default": 1}),
    OpenApiParameter("after", {"type": "string"}, description="The place in the list that `next` of an answer names."),
    OpenApiParameter(
        "page_size", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE}
    ),
)
_REFUSALS = {
    400: "What is wrong with the request: `code`, `field` and the remedy.",
    401: "No token, or one that is unknown, revoked or expired.",
    403: "The token lacks the scope, or you the right.",
    404: "It does not exist, or you may not see it: the same answer.",
    409: "It does not go with the present state.",
    410: "It was there once; what is left of it cannot be read.",
    413: "The body is larger than 1.5 MiB.",
    415: "The body is not `application/json`.",
    416: "Nothing of it lies in the range that was asked for; `Content-Range` says how long it is.",
    429: "Too many of these in a minute; `Retry-After` says how long to wait.",
    503: "The database does not answer, or (`busy`) too much is asked of the portal; try again shortly.",
    507: "`disk_low`: the portal's disk is almost full; nothing was changed. `Retry-After` says when to try again.",
}


def page_schema(item: type[serializers.BaseSerializer], name: str) -> serializers.Serializer:
    return inline_serializer(
        name,
        {
            "count": serializers.IntegerField(),
            "page": serializers.IntegerField(allow_null=True, help_text="Null where it began behind a place: `after`."),
            "page_size": serializers.IntegerField(),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            "results": item(many=True),
        },
    )


def documented(
    summary: str,
    *,
    answer: Any,
    status: int = 200,
    refusals: tuple[int, ...] = (),
    parameters: tuple[OpenApiParameter, ...] = (),
    more_answers: Mapping[Any, Any] | None = None,
    **more: Any,
) -> Callable[[Any], Any]:
    """Describe an operation; 400, 401, 403, 503 and 507 are possible everywhere.

    `more_answers`: by (status, media type); `answer` None: it is no JSON.
    """
    answers = {code: OpenApiResponse(Error, _REFUSALS[code]) for code in sorted({400, 401, 403, 503, 507, *refusals})}
    found: dict[Any, Any] = {status: answer, **answers}
    if more_answers:
        told = {(code, "application/json"): each for code, each in found.items() if each is not None}
        found = told | dict(more_answers)
    return extend_schema(summary=summary, responses=found, parameters=list(parameters), **more)


def idempotency_parameter(description: str) -> OpenApiParameter:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": "^[!-~]+$"}
    return OpenApiParameter("Idempotency-Key", schema, OpenApiParameter.HEADER, description=description)


def parameter(
    name: str, schema: type | dict[str, Any] = str, description: str = "", *, required: bool = False
) -> OpenApiParameter:
    return OpenApiParameter(name, schema, description=description, required=required)


def ordering_parameter(names: Sequence[str]) -> OpenApiParameter:
    """A list's order: by one of these, ascending, or with a minus before it descending."""
    return parameter("ordering", {"type": "string", "enum": [sign + name for name in names for sign in ("", "-")]})


def time_parameter(name: str, description: str) -> OpenApiParameter:
    return parameter(name, {"type": "string", "format": "date-time"}, description)
