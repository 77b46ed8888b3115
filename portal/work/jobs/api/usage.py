"""`/api/v1/tenants/{name}/usage`: GPU hours by person, as JSON or CSV."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView
from portal.foundation.api.csv_text import csv_lines
from portal.foundation.api.queries import Query
from portal.foundation.api.schema import documented, parameter, time_parameter
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.selectors import tenant_find, zone_of
from portal.work.jobs.declaration.table import CATEGORIES
from portal.work.jobs.use import HOURS, Usage, usage_of

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.tenants.models import Tenant, User

FORMATS = ("json", "csv")


class UsageRowShape(serializers.Serializer):
    user = serializers.CharField(allow_null=True, help_text="Null: all, in the sum.")
    category = serializers.ChoiceField(choices=CATEGORIES, allow_null=True, help_text="The jobs'; null: not said.")
    attempts = serializers.IntegerField(help_text="Runs and profiles that held something in that time.")
    gpu_hours = serializers.FloatField(help_text="Held; a part of a shared GPU counts as its share.")
    idle_gpu_hours = serializers.FloatField(help_text="Of these, in which the GPU did not compute, as measured.")
    unmeasured_gpu_hours = serializers.FloatField(help_text="Of these, not measured, or not yet: still running.")
    core_hours = serializers.FloatField()


class TenantUsage(serializers.Serializer):
    tenant = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    rows = UsageRowShape(many=True)
    total = UsageRowShape()


class UsageView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Say who used how many GPU hours and core hours, and how many of them were idle",
        answer=TenantUsage,
        refusals=(404,),
        parameters=(
            OpenApiParameter("name", str, OpenApiParameter.PATH, description="The tenant's name."),
            time_parameter("since", "From then on. Missing: 30 days before the end."),
            time_parameter("until", "Until then. Missing: now."),
            parameter("format", {"type": "string", "enum": list(FORMATS), "default": "json"}),
        ),
        operation_id="usage_show",
        description="A row for each person and category of jobs. At most 400 days at once.",
        more_answers={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "The rows, without their sum.")},
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        query = Query(request, known=("since", "until", "format"))
        tenant = tenant_find(user=request.user, name=name, only=tenant_of(request))
        found = usage_of(tenant, since=query.time("since"), until=query.time("until"))
        if query.choice("format", FORMATS) == "csv":
            return _csv(request.user, tenant, found)
        return Response(TenantUsage({"tenant": tenant.name, **asdict(found)}).data)


def _csv(user: User, tenant: Tenant, usage: Usage) -> HttpResponse:
    """Answer with the rows; times are in the reader's zone."""
    zone = zone_of(user)
    since, until = (at.astimezone(zone).isoformat(timespec="seconds") for at in (usage.since, usage.until))
    rows = [
        [tenant.name, row.user, row.category, row.attempts, *(getattr(row, name) for name in HOURS), since, until]
        for row in usage.rows
    ]
    head = ["tenant", "user", "category", "attempts", *HOURS, "since", "until"]
    disposition = f'attachment; filename="usage-{tenant.name}-{until[:10]}.csv"'
    return HttpResponse(
        csv_lines([head, *rows]),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": disposition},
    )
