"""The agents' door for artefacts: what files there are, and their bytes in pieces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from portal.foundation.errors import BerthError
from portal.nodes import serializers_artefacts as shapes
from portal.nodes.base import AgentView, checked, key_of, number_of, parameter_of
from portal.work.artefacts.services import artefact_append, artefacts_told
from portal.work.artefacts.services.taking import PIECE_BYTES
from portal.work.jobs.keys import KEY_PATTERN
from portal.work.jobs.services.logs import OffsetMismatch

if TYPE_CHECKING:
    from rest_framework.request import Request

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class PieceParser(BaseParser):
    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read(PIECE_BYTES + 1)


class ArtefactsView(AgentView):
    @extend_schema(request=shapes.ArtefactsRequest, responses=shapes.ArtefactsAnswer)
    def post(self, request: Request) -> Response:
        body = checked(shapes.ArtefactsRequest, request.data)
        self.boot_check(body["boot_id"])
        told = artefacts_told(
            node=self.node,
            key=body["attempt"],
            epoch=body["epoch"],
            rank=body["rank"],
            files=body["files"],
            gone=body["gone"],
            notes=body["notes"],
            notes_more=body["notes_more"],
        )
        return Response({"files": told})


class ArtefactPieceView(AgentView):
    parser_classes = (PieceParser,)

    @extend_schema(
        parameters=[
            parameter_of("attempt", str, pattern=KEY_PATTERN),
            *(parameter_of(name, int) for name in ("epoch", "rank", "size", "modified_ns", "offset")),
            *(parameter_of(name, str) for name in ("path", "piece", "whole")),
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=shapes.ArtefactPieceAnswer,
    )
    def post(self, request: Request) -> Response:
        data = bytes(request.data) if request.data else b""
        if len(data) > PIECE_BYTES:
            raise BerthError("too_long", f"Send at most {PIECE_BYTES} bytes at once.", status=413)
        path = request.query_params.get("path", "")
        try:
            next_offset, kept = artefact_append(
                node=self.node,
                key=key_of(request),
                epoch=number_of(request, "epoch"),
                rank=number_of(request, "rank"),
                told={"path": path} | {name: number_of(request, name) for name in ("size", "modified_ns")},
                offset=number_of(request, "offset"),
                data=data,
                digests={name: _digest(request, name) for name in ("piece", "whole")},
            )
        except OffsetMismatch as error:
            return Response(error.envelope() | {"next_offset": error.next_offset}, status=error.status)
        return Response({"next_offset": next_offset, "kept": kept})


def _digest(request: Request, name: str) -> str:
    """Return a SHA-256; `whole` may be empty until the last piece."""
    text = request.query_params.get(name, "")
    if not _SHA256.match(text) and (text or name == "piece"):
        raise BerthError("invalid", f"{name} must be a SHA-256: 64 hexadecimal digits.", field=name)
    return text
