"""`/api/bridge/v1/history`: a bridge sends its partition's past. The rest of the bridges' door is `portal.nodes.bridge`."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.foundation.api.parsers import json_strict
from portal.foundation.api.throttles import LaboratoryThrottle
from portal.foundation.errors import BerthError
from portal.nodes.base import checked
from portal.nodes.bridge import SMALL, BridgeToken
from portal.pages.laboratory.engine_history import engine_history_simulate
from portal.planning.rounds.settings.knobs import knobs_current
from workers.protocol.engine import MOST_NODES

if TYPE_CHECKING:
    from rest_framework.request import Request

MOST_SENT, MOST_HEAD = 8 * 2**20, 256 * 1024


class NodeGroup(serializers.Serializer):
    count = serializers.IntegerField(min_value=1, max_value=MOST_NODES)
    cores = serializers.IntegerField(min_value=0, max_value=SMALL)
    memory_mib = serializers.IntegerField(min_value=0, max_value=2**40)
    gpus = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=1024))


class HistoryHead(serializers.Serializer):
    days = serializers.IntegerField(min_value=1, max_value=366)
    nodes = serializers.ListField(child=NodeGroup(), max_length=MOST_NODES)


class HistoryTaken(serializers.Serializer):
    page = serializers.CharField(help_text="The path of the simulation's page.")
    owner = serializers.CharField(help_text="The user who may open it.")
    jobs = serializers.IntegerField(help_text="Those that ran.")


class BridgeHistoryView(APIView):
    authentication_classes = (BridgeToken,)
    permission_classes = (IsAuthenticated,)
    throttle_classes = (LaboratoryThrottle,)
    metadata_class = None

    @extend_schema(request={"application/octet-stream": OpenApiTypes.BINARY}, responses={201: HistoryTaken})
    def post(self, request: Request) -> Response:
        head, records = _read(request._request.read(MOST_SENT + 1))  # noqa: SLF001 - unread by any parser
        made = engine_history_simulate(
            engine=request.user.engine, days=head["days"], nodes=head["nodes"], records=records
        )
        page = reverse("laboratory-detail", kwargs={"number": made.pk})
        taken = {"page": page, "owner": made.owner.username, "jobs": made.trace.jobs}
        return Response(taken, status=status.HTTP_201_CREATED)


def _read(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head and the records. Of more than a trace may have the rest stays packed."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(body, knobs_current()["laboratory_trace_mib"] * 2**20 + MOST_HEAD + 1)
    except zlib.error as error:
        raise BerthError("invalid", f"The body is not compressed by zlib: {error}.") from error
    if not unpacking.eof and not unpacking.unconsumed_tail:
        raise BerthError("invalid", "The body is cut; send it again.")
    head, _, records = text.partition(b"\n")
    if len(head) > MOST_HEAD:
        raise BerthError("too_large", f"The first line is longer than {MOST_HEAD // 1024} KiB.", status=413)
    return checked(HistoryHead, json_strict(head)), records
