"""`/api/v1/simulations/traces`: upload, take from the cluster's history, list, show, share, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.types import OpenApiTypes
from rest_framework.response import Response

from portal.foundation import checks
from portal.foundation.api.base import body_of
from portal.foundation.api.queries import PAGE_PARAMETERS, Query, ordered, page_of
from portal.foundation.api.schema import PAGING, documented, ordering_parameter, page_schema, parameter
from portal.foundation.errors import BerthError
from portal.pages.laboratory.api.serializers import HistoryAsked, Sharing, TraceSerializer
from portal.pages.laboratory.api.simulations import NUMBER_PATH, LaboratoryView, sharing_of, tenant_asked
from portal.pages.laboratory.models import LabTrace
from portal.pages.laboratory.selectors import acting_check, trace_get, traces_for
from portal.pages.laboratory.services import history_add, owned_share, trace_add, trace_delete
from portal.pages.laboratory.sources.history import MOST_DAYS
from portal.people.tenants.authentication import tenant_of
from portal.planning.rounds.settings.knobs import knobs_current
from scheduler.simulator.traces.registry import FORMATS

if TYPE_CHECKING:
    from rest_framework.request import Request

ORDERINGS = ("id", "name", "jobs", "span_s", "size_bytes", "created_at")
UPLOAD_TYPE = "application/octet-stream"


def trace_of(request: Request, number: str, *, verb: str | None = None) -> LabTrace:
    """Return the trace. With a `verb` the user must be allowed to do that to it. Raises NotFound."""
    found = trace_get(user=request.user, number=number, tenant=tenant_of(request))
    if verb is not None:
        acting_check(row=found, user=request.user, verb=verb)
    return found


def trace_answer(request: Request, trace: LabTrace, *, status: int = 200) -> Response:
    found = trace_get(user=request.user, number=trace.pk, tenant=tenant_of(request))
    headers = {"Location": f"/api/v1/simulations/traces/{found.pk}"} if status == 201 else None
    return Response(TraceSerializer(found).data, status=status, headers=headers)


class TracesView(LaboratoryView):
    @documented(
        "List traces",
        answer=page_schema(TraceSerializer, "TracePage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("tenant"),
            parameter("owner", str, "A user name."),
            parameter("name", str, "A part of the name."),
            parameter("format", {"type": "string", "enum": list(FORMATS)}),
            parameter("origin", {"type": "string", "enum": LabTrace.Origin.values}),
        ),
        operation_id="traces_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "tenant", "owner", "name", "format", "origin"))
        wanted = {
            "tenant__name": query.text("tenant"),
            "owner__username": query.text("owner"),
            "name__icontains": query.text("name", max_chars=100),
            "format": query.choice("format", FORMATS),
            "origin": query.choice("origin", LabTrace.Origin.values),
        }
        rows = traces_for(user=request.user, tenant=tenant_of(request))
        rows = rows.filter(**{name: value for name, value in wanted.items() if value is not None})
        rows = ordered(query, rows, allowed=ORDERINGS, default="-id")
        return Response(page_of(query, rows, lambda page: TraceSerializer(page, many=True).data))

    @documented(
        "Upload a trace: the file's bytes as the body",
        answer=TraceSerializer,
        status=201,
        refusals=(409, 413, 415, 429),
        request={UPLOAD_TYPE: OpenApiTypes.BINARY},
        parameters=(
            parameter("format", {"type": "string", "enum": list(FORMATS)}, required=True),
            parameter("name", {"type": "string", "minLength": 1, "maxLength": 100}, required=True),
            parameter("tenant", str, "One of yours; needed where you have several."),
        ),
        operation_id="traces_upload",
        description="Its every line is read first; what is wrong is told by line and column, and nothing is kept.",
    )
    def post(self, request: Request) -> Response:
        query = Query(request, known=("format", "name", "tenant"))
        trace = trace_add(
            user=request.user,
            tenant=tenant_asked(request, query.values),
            name=query.values.get("name", ""),
            form=query.text("format", max_chars=32) or "",
            content=_read_upload(request),
        )
        return trace_answer(request, trace, status=201)


def _read_upload(request: Request) -> bytes:
    """Return the body, at most one byte more than a trace may have."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != UPLOAD_TYPE:
        detail = f"Send the trace's bytes with `Content-Type: {UPLOAD_TYPE}`."
        raise BerthError("unsupported_media_type", detail, status=415)
    limit = knobs_current()["laboratory_trace_mib"] * 2**20
    return request._request.read(limit + 1)  # noqa: SLF001 - unread by any parser, and larger than those take


class TraceHistoryView(LaboratoryView):
    @documented(
        "Keep the jobs of the last days as a trace: your tenant's, an operator every tenant's",
        answer=TraceSerializer,
        status=201,
        refusals=(409, 413, 415, 429),
        request=HistoryAsked,
        operation_id="traces_history",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request, known=["days", "tenant", "name"])
        days, name = body.get("days"), body.get("name")
        if days is None:
            raise BerthError("required", "Say how many days: `days` is missing.", field="days")
        trace = history_add(
            user=request.user,
            tenant=tenant_asked(request, body),
            name="" if name is None else checks.text(name, "name", max_chars=100, blank=True),
            days=checks.number(days, "days", above=0, high=MOST_DAYS),
            within=tenant_of(request),
        )
        return trace_answer(request, trace, status=201)


class TraceView(LaboratoryView):
    @documented(
        "Show a trace",
        answer=TraceSerializer,
        refusals=(404,),
        parameters=NUMBER_PATH,
        operation_id="traces_show",
    )
    def get(self, request: Request, number: str) -> Response:
        Query(request, known=())
        return trace_answer(request, trace_of(request, number))

    @documented(
        "Delete a trace and what was simulated on it",
        answer=None,
        status=204,
        refusals=(404, 409, 413, 415),
        parameters=NUMBER_PATH,
        request=None,
        operation_id="traces_delete",
    )
    def delete(self, request: Request, number: str) -> Response:
        found = trace_of(request, number, verb="delete")
        body_of(request)
        trace_delete(trace=found, actor=request.user)
        return Response(status=204)


class TraceShareView(LaboratoryView):
    @documented(
        "Say who else sees a trace",
        answer=TraceSerializer,
        refusals=(404, 413, 415),
        parameters=NUMBER_PATH,
        request=Sharing,
        operation_id="traces_share",
    )
    def post(self, request: Request, number: str) -> Response:
        found = trace_of(request, number, verb="share")
        owned_share(row=found, actor=request.user, shared_with=sharing_of(request))
        return trace_answer(request, found)
