"""`/api/v1/neighbours`: how fast jobs ran beside one other on a GPU, for operators; pairs may be of two tenants."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, ordered, page_of
from portal.foundation.api.schema import PAGING, documented, ordering_parameter, page_schema
from portal.planning.estimation.models import PairSpeed
from portal.planning.estimation.neighbours import pairs_told

ORDERINGS = ("count", "mean", "at")


class Neighbours(serializers.Serializer):
    """A job's speed beside another on a GPU that both share."""

    job = serializers.CharField(help_text="Whose speed it is: tenant and model, or one job.")
    beside = serializers.CharField(help_text="Who ran beside it.")
    gpu_type = serializers.CharField()
    speed_kept = serializers.FloatField(help_text="Share of its speed alone on such a GPU; 1: as fast as alone.")
    deviation = serializers.FloatField(help_text="Standard deviation of that share over the records.")
    records = serializers.IntegerField(help_text="The number of records that were compared.")
    at = serializers.DateTimeField(help_text="When the last one came.")


class NeighboursView(ApiView):
    read_scope = "operator"

    @documented(
        "How fast jobs ran beside one other on a GPU",
        answer=page_schema(Neighbours, "NeighboursPage"),
        parameters=(*PAGING, ordering_parameter(ORDERINGS)),
        operation_id="neighbours_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering"))
        pairs = PairSpeed.objects.select_related("signature", "gpu_type")
        rows = ordered(query, pairs, allowed=ORDERINGS, default="-count")
        return Response(page_of(query, rows, lambda found: Neighbours(pairs_told(found), many=True).data))
