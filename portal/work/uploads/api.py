"""`/api/v1/uploads`: list the files that a job will bring, send the contents that are missing, list the uploads there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView
from portal.foundation.api.parsers import request_object
from portal.foundation.api.queries import PAGE_PARAMETERS, Query, ordered, page_of
from portal.foundation.api.schema import PAGING, RawSchema, documented, ordering_parameter, page_schema, parameter
from portal.foundation.checks import known_keys, text
from portal.foundation.environment import env
from portal.foundation.errors import BerthError
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.choosing import tenant_resolve
from portal.work.uploads.manifest import MOST_FILES, SHA256_PATTERN, entries_read, sha256_check
from portal.work.uploads.models import Upload
from portal.work.uploads.receiving import ASKED, STAGE
from portal.work.uploads.services import content_check, content_take, upload_declare
from portal.work.uploads.store import PIECE_BYTES, Incoming

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.tenants.models import Tenant

CONTENT_TYPE = "application/octet-stream"
ORDERINGS = ("created_at", "used_at", "size_bytes", "count")
TENANT = parameter("tenant", str, "One of yours; needed where you have several.")
_HASH = {"type": "string", "pattern": SHA256_PATTERN}


class UploadAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["files"],
        "additionalProperties": False,
        "properties": {
            "tenant": {"type": "string", "nullable": True, "description": "Needed by members of several tenants."},
            "files": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_FILES,
                "items": {
                    "type": "object",
                    "required": ["path", "sha256", "size_bytes"],
                    "additionalProperties": False,
                    "properties": {
                        "path": {"type": "string", "description": "Relative, below the job's directory."},
                        "sha256": {**_HASH, "description": "Of the content."},
                        "size_bytes": {"type": "integer", "minimum": 0},
                        "executable": {"type": "boolean", "nullable": True},
                    },
                },
            },
        },
    }


class UploadSerializer(serializers.ModelSerializer):
    """A set of files that jobs can bring."""

    tenant = serializers.CharField(source="tenant.name")
    files = serializers.IntegerField(source="count", help_text="How many.")

    class Meta:
        model = Upload
        fields = ["digest", "tenant", "files", "size_bytes", "created_at", "used_at"]
        read_only_fields = fields


class UploadDeclared(serializers.Serializer):
    """What is still to be sent. With nothing `missing` jobs can name the upload by its `digest`."""

    digest = serializers.CharField(help_text="What a job names in `upload`.")
    complete = serializers.BooleanField()
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Hashes of contents to send by `PUT /uploads/content/{sha256}`."
    )


class ContentTaken(serializers.Serializer):
    sha256 = serializers.CharField()
    size_bytes = serializers.IntegerField()


class UploadsView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "List uploads",
        answer=page_schema(UploadSerializer, "UploadPage"),
        parameters=(*PAGING, ordering_parameter(ORDERINGS), parameter("tenant")),
        operation_id="uploads_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "tenant"))
        rows = Upload.objects.visible_to(request.user).select_related("tenant")
        if (only := tenant_of(request)) is not None:
            rows = rows.filter(tenant=only)
        if name := query.text("tenant"):
            rows = rows.filter(tenant__name=name)
        rows = ordered(query, rows, allowed=ORDERINGS, default="-used_at")
        return Response(page_of(query, rows, lambda page: UploadSerializer(page, many=True).data))

    @documented(
        "List the files of an upload, and learn which contents are missing",
        answer=UploadDeclared,
        refusals=(409, 413, 415),
        request=UploadAsked,
        operation_id="uploads_create",
        description="Send the missing contents, then the same list again: it answers `complete`. Changes nothing when repeated.",
    )
    def post(self, request: Request) -> Response:
        body = request_object(request._request)  # noqa: SLF001 - the public way to the raw request
        known_keys(body, "body", required={"files"}, optional={"tenant"})
        name = body.get("tenant")
        tenant = _tenant(request, None if name is None else text(name, "tenant", max_chars=63))
        entries = entries_read(body["files"], limit_mib=env("BERTH_UPLOAD_MIB"))
        found = upload_declare(user=request.user, tenant=tenant, entries=entries)
        return Response({"digest": found.digest, "complete": not found.missing, "missing": found.missing})


class ContentView(ApiView):
    # Under ASGI it is called twice (`receiving.py`): before the bytes come, and once they are on the disk.
    write_scope = "jobs:write"

    @documented(
        "Send one file's content: its bytes as the body",
        answer=ContentTaken,
        refusals=(409, 413, 415, 429),
        request={CONTENT_TYPE: OpenApiTypes.BINARY},
        parameters=(OpenApiParameter("sha256", _HASH, OpenApiParameter.PATH), TENANT),
        operation_id="uploads_content",
    )
    def put(self, request: Request, sha256: str) -> Response:
        query = Query(request, known=("tenant",))
        sha256_check(sha256, "sha256")
        tenant = _tenant(request, query.text("tenant", max_chars=63))
        size_bytes = _length(request)
        if size_bytes and request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            detail = f"Send the file's bytes with `Content-Type: {CONTENT_TYPE}`."
            raise BerthError("unsupported_media_type", detail, status=415)
        content_check(tenant, size_bytes)
        stage = getattr(request._request, "scope", {}).get(STAGE)  # noqa: SLF001 - set by Receiving
        if stage is ASKED:
            return Response({"user": request.user.pk}, status=202)
        incoming = stage if isinstance(stage, Incoming) else _read(request, size_bytes)
        try:
            _taken(tenant, sha256, incoming, size_bytes)
        finally:
            incoming.discard()
        return Response({"sha256": sha256, "size_bytes": size_bytes})


def _tenant(request: Request, name: str | None) -> Tenant:
    return tenant_resolve(user=request.user, tenant=tenant_of(request), name=name, what="the files are")


def _length(request: Request) -> int:
    length = request.META.get("CONTENT_LENGTH") or ("" if "Transfer-Encoding" in request.headers else "0")
    if not length.isascii() or not length.isdigit() or len(length) > 18:
        detail = "Give the number of bytes in `Content-Length`; a body in chunks is not accepted here."
        raise BerthError("length_required", detail, field="Content-Length", status=400)
    return int(length)


def _read(request: Request, size_bytes: int) -> Incoming:
    """Read the body of a server that has no ASGI in front of it."""
    incoming = Incoming.begin()
    try:
        stream: Any = request._request  # noqa: SLF001 - unread by any parser
        while piece := stream.read(min(PIECE_BYTES, size_bytes - incoming.size_bytes)):
            incoming.write(piece)
        incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    return incoming


def _taken(tenant: Tenant, sha256: str, incoming: Incoming, size_bytes: int) -> None:
    if incoming.size_bytes != size_bytes or incoming.sha256 != sha256:
        detail = "The SHA-256 of what arrived is not that of the path: it was changed, or its bytes on the way. Send it again."
        raise BerthError("digest_mismatch", detail, field="sha256")
    content_take(tenant=tenant, sha256=sha256, size_bytes=size_bytes, incoming=incoming.path)
