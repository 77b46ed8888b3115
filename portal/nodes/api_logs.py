"""The agents' door for jobs' output: much of one log, or a little of many in one request."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, get_args

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from portal.foundation.disk import disk_require
from portal.nodes.base import AgentView, checked, key_of, number_of, parameter_of
from portal.nodes.serializers import BIG, PartKey
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
