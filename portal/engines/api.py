"""`/api/v1/engines`: the attached partitions of other schedulers, their nodes, and the GPUs that Berth holds there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from portal.engines.models import Engine
from portal.engines.selectors import engine_get, hosts_of, orders_open
from portal.engines.serializers import EngineDetailSerializer, EngineSerializer
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, ordered, page_of
from portal.foundation.api.schema import PAGING, documented, ordering_parameter, page_schema
from portal.foundation.errors import NotFound
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.models import Membership

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.tenants.models import Tenant

ORDERINGS = ("name", "registered_at")


def _told(request: Request, engines: list[Engine]) -> dict[str, Any]:
    """Give each engine its open orders and its hosts; return the serializer's context. Two queries."""
    orders, user, only = orders_open(engines), request.user, tenant_of(request)
    for engine in engines:
        engine.orders = orders[engine.pk]
        engine.hosts = hosts_of(engine, engine.orders)
    own = set(Membership.objects.filter(user=user).values_list("tenant_id", flat=True))

    def sees(tenant: Tenant) -> bool:
        return (user.is_operator or tenant.pk in own) and (only is None or only.pk == tenant.pk)

    return {"sees": sees, "operates": user.is_operator}


class EnginesView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "List the partitions of other schedulers",
        answer=page_schema(EngineSerializer, "EnginePage"),
        parameters=(*PAGING, ordering_parameter(ORDERINGS)),
        operation_id="engines_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering"))
        engines = ordered(query, Engine.objects.select_related("tenant"), allowed=ORDERINGS, default="name")

        def rows(page: list[Engine]) -> Any:
            return EngineSerializer(page, many=True, context=_told(request, page)).data

        return Response(page_of(query, engines, rows))


class EngineView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "Show a partition of another scheduler, its nodes, and the jobs there that are Berth's",
        answer=EngineDetailSerializer,
        refusals=(404,),
        parameters=(OpenApiParameter("name", str, OpenApiParameter.PATH, description="CLUSTER/PARTITION"),),
        operation_id="engines_show",
    )
    def get(self, request: Request, name: str) -> Response:
        Query(request, known=())
        if "\0" in name:
            raise NotFound("engine")
        engine = engine_get(name=name)
        return Response(EngineDetailSerializer(engine, context=_told(request, [engine])).data)
