"""The agents' door for artefacts: the list of files, and their bytes in pieces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.errors import BerthError
from portal.nodes.api_logs import RawParser
from portal.nodes.base import AgentView, checked, key_of, number_of, parameter_of
from portal.nodes.serializers import PartKey
from portal.work.artefacts.services.taking import (
    FILES_AT_ONCE,
    MOST_NOTES,
    PIECE_BYTES,
    artefact_append,
    artefacts_told,
)
from portal.work.jobs.keys import KEY_PATTERN
from portal.work.jobs.services.logs import OffsetMismatch

if TYPE_CHECKING:
    from rest_framework.request import Request


class ArtefactFile(serializers.Serializer):
    """What cannot be kept of these is refused alone, not with the files beside it (`artefacts_told`)."""

    path = serializers.CharField(allow_blank=True, trim_whitespace=False)
    size = serializers.IntegerField(help_text="Bytes.")
    modified_ns = serializers.IntegerField(help_text="Nanoseconds since 1970.")


class ArtefactsRequest(PartKey):
    boot_id = serializers.CharField(max_length=64)
    files = ArtefactFile(many=True, max_length=FILES_AT_ONCE)
    gone = serializers.ListField(
        child=serializers.CharField(max_length=1024, trim_whitespace=False), max_length=FILES_AT_ONCE
    )
    notes = serializers.ListField(
        child=serializers.ListField(
            child=serializers.CharField(max_length=300, allow_blank=True, trim_whitespace=False),
            min_length=2,
            max_length=2,
        ),
        max_length=MOST_NOTES,
        allow_null=True,
        help_text="Files that the node does not send, [path, why] each; null: as before.",
    )
    notes_more = serializers.IntegerField(
        min_value=0, max_value=2**31, default=0, help_text="How many others there are beside `notes`."
    )


class ArtefactTaken(serializers.Serializer):
    path = serializers.CharField()
    state = serializers.ChoiceField(choices=["send", "kept", "refused"])
    offset = serializers.IntegerField(help_text="Where to go on sending.")
    detail = serializers.CharField(help_text="Why it is refused.")


class ArtefactsAnswer(serializers.Serializer):
    files = ArtefactTaken(many=True)


class ArtefactPieceAnswer(serializers.Serializer):
    next_offset = serializers.IntegerField()
    kept = serializers.BooleanField()


_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class PieceParser(RawParser):
    most = PIECE_BYTES


class ArtefactsView(AgentView):
    @extend_schema(request=ArtefactsRequest, responses=ArtefactsAnswer)
    def post(self, request: Request) -> Response:
        body = checked(ArtefactsRequest, request.data)
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
        responses=ArtefactPieceAnswer,
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
