"""`/api/v1/me`: the token's owner and scopes, and the use of each quota of its tenants."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView, Query
from portal.foundation.api.schema import documented, parameter, time_parameter
from portal.foundation.api.streams import csv_lines
from portal.foundation.environment import env
from portal.people.tenants.authentication import tenant_of, token_of
from portal.people.tenants.models import Membership, Tenant
from portal.people.tenants.selectors import tenant_find, zone_of
from portal.people.tenants.services import SCOPES
from portal.work.jobs.declaration.table import CATEGORIES
from portal.work.jobs.use import HOURS, Usage, tenants_use, usage_of

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.tenants.models import User


class TenantUse(serializers.Serializer):
    """`quota` null: no limit."""

    quota = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()


class TenantGpus(serializers.Serializer):
    """`quota` null: no limit."""

    quota = serializers.IntegerField(allow_null=True)
    used = serializers.FloatField(help_text="A part of a shared GPU counts as its share.")


class MyTenant(serializers.Serializer):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=["viewer", "member", "manager", "operator"])
    is_active = serializers.BooleanField()
    weight = serializers.FloatField()
    gpus = TenantGpus()
    cores = TenantUse()
    queued_jobs = TenantUse()


class MyToken(serializers.Serializer):
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES))
    tenant = serializers.CharField(
        allow_null=True, help_text="The one tenant that the token is restricted to; null: it is not restricted."
    )
    expires_at = serializers.DateTimeField(allow_null=True)


class Me(serializers.Serializer):
    username = serializers.CharField()
    is_operator = serializers.BooleanField()
    tenants = MyTenant(many=True)
    upload_limit_mib = serializers.IntegerField(help_text="The most that the uploaded files of one job may have.")
    token = MyToken(allow_null=True, help_text="The token that was used; null: you are signed in by browser.")


class MeView(ApiView):
    @documented("Show who I am, my tenants with quotas and use, and this token", answer=Me, operation_id="me")
    def get(self, request: Request) -> Response:
        Query(request, known=())
        token = token_of(request)
        answer = {
            "username": request.user.username,
            "is_operator": request.user.is_operator,
            "tenants": _tenants(request.user, only=tenant_of(request)),
            "upload_limit_mib": env("BERTH_UPLOAD_MIB"),
            "token": token
            and {
                "name": token.name,
                "prefix": token.prefix,
                "scopes": token.scopes,
                "tenant": token.tenant.name if token.tenant else None,
                "expires_at": token.expires_at,
            },
        }
        return Response(Me(answer).data)


def _tenants(user: User, *, only: Tenant | None) -> list[dict[str, Any]]:
    tenants = Tenant.objects.visible_to(user)
    if only:
        tenants = tenants.filter(pk=only.pk)
    roles = dict(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
    use = tenants_use(tenants)
    return [
        {
            "name": tenant.name,
            "role": roles.get(tenant.pk, "operator"),
            "is_active": tenant.is_active,
            "weight": tenant.weight,
            "gpus": {"quota": tenant.gpu_quota, "used": use[tenant.pk].gpus},
            "cores": {"quota": tenant.core_quota, "used": use[tenant.pk].cores},
            "queued_jobs": {"quota": tenant.queued_jobs_quota, "used": use[tenant.pk].queued_jobs},
        }
        for tenant in tenants
    ]


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
