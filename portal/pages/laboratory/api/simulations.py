"""`/api/v1/simulations`: ask, list, show, cancel, share, delete, and the report, as on the laboratory's pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation import checks
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, body_of, idempotency_key_of, ordered, page_of
from portal.foundation.api.parsers import request_object
from portal.foundation.api.schema import (
    PAGING,
    documented,
    idempotency_parameter,
    ordering_parameter,
    page_schema,
    parameter,
    time_parameter,
)
from portal.foundation.api.throttles import LaboratoryThrottle
from portal.foundation.errors import Conflict
from portal.pages.laboratory.api.serializers import (
    EXAMPLES,
    Sharing,
    SimulationAsked,
    SimulationDetailSerializer,
    SimulationReport,
    SimulationSerializer,
)
from portal.pages.laboratory.models import Simulation
from portal.pages.laboratory.orders import order_parse
from portal.pages.laboratory.output import told
from portal.pages.laboratory.run.answer import report_of
from portal.pages.laboratory.selectors import acting_check, simulation_get, simulations_for, tenant_chosen
from portal.pages.laboratory.services import (
    RequestKey,
    owned_share,
    simulation_cancel,
    simulation_delete,
    simulation_known,
    simulation_order,
)
from portal.people.tenants.authentication import tenant_of

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant

FILTERS = ("state", "tenant", "owner", "name", "trace", "since", "until")
ORDERINGS = ("id", "name", "state", "created_at", "started_at", "ended_at")
NUMBER_PATH = (OpenApiParameter("number", str, OpenApiParameter.PATH),)


class LaboratoryView(ApiView):
    """A new order is counted by the throttle: it reads a trace or a cluster's description."""

    read_scope, write_scope = "simulations:read", "simulations:write"

    def get_throttles(self) -> list[Any]:
        return [LaboratoryThrottle()] if self.request.method == "POST" and "number" not in self.kwargs else []


def simulation_of(request: Request, number: str, *, verb: str | None = None) -> Simulation:
    """Return the simulation. With a `verb` the user must be allowed to do that to it. Raises NotFound."""
    found = simulation_get(user=request.user, number=number, tenant=tenant_of(request))
    if verb is not None:
        acting_check(row=found, user=request.user, verb=verb)
    return found


def simulation_answer(request: Request, simulation: Simulation, *, status: int = 200) -> Response:
    """Answer with the whole simulation as it stands now."""
    found = simulation_get(user=request.user, number=simulation.pk, tenant=tenant_of(request))
    headers = {"Location": f"/api/v1/simulations/{found.pk}"} if status == 201 else None
    return Response(SimulationDetailSerializer(found).data, status=status, headers=headers)


def tenant_asked(request: Request, given: Mapping[str, Any]) -> Tenant:
    """Return the tenant that the body or query names, or the only one that it can be."""
    name = given.get("tenant")
    name = None if name is None else checks.text(name, "tenant", max_chars=150, blank=True)
    return tenant_chosen(user=request.user, name=name, only=tenant_of(request))


class SimulationsView(LaboratoryView):
    @documented(
        "List simulations",
        answer=page_schema(SimulationSerializer, "SimulationPage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("state", str, "One state or several with commas: QUEUED,RUNNING."),
            parameter("tenant"),
            parameter("owner", str, "A user name."),
            parameter("name", str, "A part of the name."),
            parameter("trace", {"type": "integer", "minimum": 1}, "Of that trace."),
            time_parameter("since", "Asked for at or after."),
            time_parameter("until", "Asked for before."),
        ),
        operation_id="simulations_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", *FILTERS))
        rows = simulations_for(user=request.user, tenant=tenant_of(request)).defer(
            "curves", "figures", "trace__content"
        )
        rows = ordered(query, _filter(query, rows), allowed=ORDERINGS, default="-id")
        return Response(page_of(query, rows, lambda page: SimulationSerializer(page, many=True).data))

    @documented(
        "Ask for a simulation",
        answer=SimulationDetailSerializer,
        status=201,
        refusals=(409, 413, 415, 429),
        request=SimulationAsked,
        examples=list(EXAMPLES),
        parameters=(
            idempotency_parameter("The same key and body again answer 201 with the same simulation, another body 409."),
        ),
        operation_id="simulations_ask",
        description="It waits its turn: ask for it again until its `state` is COMPLETED, FAILED or CANCELLED.",
    )
    def post(self, request: Request) -> Response:
        key, only = idempotency_key_of(request), tenant_of(request)
        body = request_object(request._request)  # noqa: SLF001 - the public way to the raw request
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        asked = RequestKey(key, digest) if key else RequestKey()
        made = simulation_known(user=request.user, request=asked)
        if made is None:
            tenant = tenant_asked(request, body)
            order = order_parse(body, user=request.user, tenant=only)
            made = simulation_order(user=request.user, tenant=tenant, order=order, request=asked)
        elif only and made.tenant_id != only.pk:
            detail = "This Idempotency-Key was used for another tenant; use a new key."
            raise Conflict("idempotency_conflict", detail, field="Idempotency-Key")
        return simulation_answer(request, made, status=201)


def _filter(query: Query, rows: QuerySet[Simulation]) -> QuerySet[Simulation]:
    if states := query.choices("state", Simulation.State.values):
        rows = rows.filter(state__in=states)
    wanted = {
        "tenant__name": query.text("tenant"),
        "owner__username": query.text("owner"),
        "name__icontains": query.text("name", max_chars=100),
        "trace": query.whole("trace", None, 1, 2**63 - 1),
        "created_at__gte": query.time("since"),
        "created_at__lt": query.time("until"),
    }
    return rows.filter(**{name: value for name, value in wanted.items() if value is not None})


class SimulationView(LaboratoryView):
    @documented(
        "Show a simulation: how far it is, and its figures",
        answer=SimulationDetailSerializer,
        refusals=(404,),
        parameters=NUMBER_PATH,
        operation_id="simulations_show",
    )
    def get(self, request: Request, number: str) -> Response:
        Query(request, known=())
        return simulation_answer(request, simulation_of(request, number))

    @documented(
        "Delete a simulation that has ended",
        answer=None,
        status=204,
        refusals=(404, 409, 413, 415),
        parameters=NUMBER_PATH,
        request=None,
        operation_id="simulations_delete",
    )
    def delete(self, request: Request, number: str) -> Response:
        found = simulation_of(request, number, verb="delete")
        body_of(request)
        simulation_delete(simulation=found, actor=request.user)
        return Response(status=204)


class SimulationCancelView(LaboratoryView):
    @documented(
        "Cancel a simulation: at once while it waits, within seconds while it runs",
        answer=SimulationDetailSerializer,
        refusals=(404, 409, 413, 415),
        parameters=NUMBER_PATH,
        request=None,
        operation_id="simulations_cancel",
    )
    def post(self, request: Request, number: str) -> Response:
        found = simulation_of(request, number, verb="cancel")
        body_of(request)
        simulation_cancel(simulation=found, actor=request.user)
        return simulation_answer(request, found)


class SimulationShareView(LaboratoryView):
    @documented(
        "Say who else sees a simulation",
        answer=SimulationDetailSerializer,
        refusals=(404, 413, 415),
        parameters=NUMBER_PATH,
        request=Sharing,
        operation_id="simulations_share",
    )
    def post(self, request: Request, number: str) -> Response:
        found = simulation_of(request, number, verb="share")
        owned_share(row=found, actor=request.user, shared_with=sharing_of(request))
        return simulation_answer(request, found)


def sharing_of(request: Request) -> str:
    value = body_of(request, known=["shared_with"]).get("shared_with")
    return checks.text("" if value is None else value, "shared_with", max_chars=16, blank=True)


_REPORTS = {"json": told.as_json, "csv": told.as_csv}


class SimulationReportView(LaboratoryView):
    @documented(
        "Fetch the report of a completed simulation: every figure, as JSON with the plots' curves or as CSV",
        answer=SimulationReport,
        refusals=(404, 409),
        parameters=(*NUMBER_PATH, parameter("format", {"type": "string", "enum": list(_REPORTS), "default": "json"})),
        operation_id="simulations_report",
        more_answers={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "A row a policy, then one a tenant of it.")},
    )
    def get(self, request: Request, number: str) -> HttpResponse:
        form = Query(request, known=("format",)).choice("format", _REPORTS) or "json"
        found = simulation_of(request, number)
        text = _REPORTS[form](report_of(found))
        kind = "application/json" if form == "json" else "text/csv"
        disposition = f'attachment; filename="simulation-{found.pk}.{form}"'
        return HttpResponse(text, content_type=kind, headers={"Content-Disposition": disposition})
