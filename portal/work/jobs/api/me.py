"""`/api/v1/me`: the token's owner and scopes, and the use of each quota of its tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView
from portal.foundation.api.queries import Query
from portal.foundation.api.schema import documented
from portal.foundation.environment import env
from portal.people.tenants.authentication import tenant_of, token_of
from portal.people.tenants.models import Membership, Tenant
from portal.people.tenants.services import SCOPES
from portal.work.jobs.use import tenants_use

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
