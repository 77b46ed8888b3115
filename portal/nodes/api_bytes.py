"""The agents' door for bytes: jobs' output, much of one log or a little of many, and artefacts, in pieces."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, get_args

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from portal.foundation.disk import disk_require
from portal.foundation.errors import BerthError
from portal.nodes.base import AgentView, checked, key_of, number_of, parameter_of
from portal.nodes.serializers import BIG, PartKey
from portal.work.artefacts.services.taking import (
    FILES_AT_ONCE,
    MOST_NOTES,
    PIECE_BYTES,
    artefact_append,
    artefacts_told,
)
from portal.work.jobs.keys import KEY_PATTERN
from portal.work.jobs.services.logs import CHUNK_BYTES, OffsetMismatch, log_append, logs_append
from workers.protocol.wire import OffsetCode

if TYPE_CHECKING:
    from rest_framework.request import Request


STREAMS = ["stdout", "stderr"]
MOST_PIECES = 64
"""In one request: sixteen jobs have 32 streams."""


class LogAnswer(serializers.Serializer):
    next_offset = serializers.IntegerField()
    full = serializers.BooleanField()


class Output(serializers.CharField):
    """Bytes, as base64."""

    def to_internal_value(self, data: Any) -> bytes:
        text = super().to_internal_value(data)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise serializers.ValidationError("Send the bytes as base64.", code="invalid") from error


class LogPiece(PartKey):
    stream = serializers.ChoiceField(choices=STREAMS)
    offset = serializers.IntegerField(min_value=0, max_value=BIG)
    data = Output(trim_whitespace=False, allow_blank=True, help_text="What was printed, base64 of its bytes.")


class LogsRequest(serializers.Serializer):
    pieces = LogPiece(many=True, max_length=MOST_PIECES)

    def validate_pieces(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if sum(len(piece["data"]) for piece in pieces) > CHUNK_BYTES:
            raise serializers.ValidationError(f"Send at most {CHUNK_BYTES} bytes of output at once.", code="too_long")
        return pieces


class LogTaken(PartKey):
    stream = serializers.ChoiceField(choices=STREAMS)
    next_offset = serializers.IntegerField()
    full = serializers.BooleanField()
    code = serializers.ChoiceField(choices=get_args(OffsetCode), allow_null=True)


class LogsAnswer(serializers.Serializer):
    pieces = LogTaken(many=True)


class RawParser(BaseParser):
    """Hands over the body's bytes as they are."""

    media_type = "*/*"
    most = CHUNK_BYTES

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read(self.most + 1)


class LogsView(AgentView):
    parser_classes = (RawParser,)

    @extend_schema(
        parameters=[
            parameter_of("attempt", str, pattern=KEY_PATTERN),
            *(parameter_of(name, int) for name in ("epoch", "rank", "offset")),
            parameter_of("stream", str, enum=["stdout", "stderr"]),
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=LogAnswer,
    )
    def post(self, request: Request) -> Response:
        disk_require()  # it waits in the part's own file
        numbers = {name: number_of(request, name) for name in ("epoch", "rank", "offset")}
        try:
            next_offset, full = log_append(
                node=self.node,
                key=key_of(request),
                epoch=numbers["epoch"],
                rank=numbers["rank"],
                stream=request.query_params.get("stream", ""),
                offset=numbers["offset"],
                data=bytes(request.data) if request.data else b"",
            )
        except OffsetMismatch as error:
            return Response(error.envelope() | {"next_offset": error.next_offset}, status=error.status)
        return Response({"next_offset": next_offset, "full": full})


class LogsTogetherView(AgentView):
    @extend_schema(request=LogsRequest, responses=LogsAnswer)
    def post(self, request: Request) -> Response:
        """Append the news of several logs. Each piece is taken or not by itself, and has its own answer."""
        disk_require()
        body = checked(LogsRequest, request.data)
        return Response({"pieces": logs_append(node=self.node, pieces=body["pieces"])})


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
