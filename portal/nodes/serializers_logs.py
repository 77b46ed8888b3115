"""The shapes of jobs' output (docs/agent-protocol.md), checked at the door."""

from __future__ import annotations

import base64
import binascii
from typing import Any, get_args

from rest_framework import serializers

from portal.nodes.serializers import BIG, PartKey
from portal.work.jobs.services.logs import CHUNK_BYTES
from workers.protocol.wire import OffsetCode

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
