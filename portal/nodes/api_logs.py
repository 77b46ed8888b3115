"""The agents' door for jobs' output: much of one log, or a little of many in one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from portal.foundation.disk import disk_require
from portal.nodes import serializers_logs as shapes
from portal.nodes.base import AgentView, checked, key_of, number_of, parameter_of
from portal.work.jobs.keys import KEY_PATTERN
from portal.work.jobs.services import log_append, logs_append
from portal.work.jobs.services.logs import CHUNK_BYTES, OffsetMismatch

if TYPE_CHECKING:
    from rest_framework.request import Request


class RawParser(BaseParser):
    """Hands over the body's bytes as they are."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> bytes:
        return stream.read(CHUNK_BYTES + 1)


class LogsView(AgentView):
    parser_classes = (RawParser,)

    @extend_schema(
        parameters=[
            parameter_of("attempt", str, pattern=KEY_PATTERN),
            *(parameter_of(name, int) for name in ("epoch", "rank", "offset")),
            parameter_of("stream", str, enum=["stdout", "stderr"]),
        ],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=shapes.LogAnswer,
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
    @extend_schema(request=shapes.LogsRequest, responses=shapes.LogsAnswer)
    def post(self, request: Request) -> Response:
        """Append the news of several logs. Each piece is taken or not by itself, and has its own answer."""
        disk_require()
        body = checked(shapes.LogsRequest, request.data)
        return Response({"pieces": logs_append(node=self.node, pieces=body["pieces"])})
