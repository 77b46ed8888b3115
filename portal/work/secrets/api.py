"""`/api/v1/secrets`: name a tenant's secrets, set and remove them. No answer ever holds a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation import checks
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, body_of, ordered, page_of
from portal.foundation.api.schema import PAGING, RawSchema, documented, ordering_parameter, page_schema, parameter
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.selectors import tenant_resolve
from portal.work.secrets.models import Secret
from portal.work.secrets.services import LONGEST_BYTES, NAME_PATTERN, SHORTEST, secret_remove, secret_set

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.tenants.models import Tenant

ORDERINGS = ("name", "changed_at")
TENANT = parameter("tenant", str, "One of yours; needed where you have several.")


class SecretAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["name", "value"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "pattern": NAME_PATTERN},
            "value": {
                "type": "string",
                "minLength": SHORTEST,
                "maxLength": LONGEST_BYTES,
                "description": "A line of it has 8 characters or more. No answer ever shows it.",
            },
            "tenant": {"type": "string", "nullable": True, "description": "Needed by members of several tenants."},
        },
    }


class SecretSerializer(serializers.ModelSerializer):
    """What is told of a secret: all but its value."""

    tenant = serializers.CharField(source="tenant.name", read_only=True)

    class Meta:
        model = Secret
        fields = ["name", "tenant", "changed_by", "changed_at"]
        read_only_fields = fields


def _tenant(request: Request, name: str | None) -> Tenant:
    return tenant_resolve(user=request.user, tenant=tenant_of(request), name=name, what="the secret is")


class SecretsView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "List the names of secrets",
        answer=page_schema(SecretSerializer, "SecretPage"),
        parameters=(*PAGING, ordering_parameter(ORDERINGS), parameter("tenant", str, "Only this tenant's.")),
        operation_id="secrets_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "tenant"))
        found = Secret.objects.visible_to(request.user).select_related("tenant").defer("sealed")
        if (own := tenant_of(request)) is not None:
            found = found.filter(tenant=own)
        if name := query.text("tenant", max_chars=63):
            found = found.filter(tenant__name=name)
        found = ordered(query, found, allowed=ORDERINGS, default="name")
        return Response(page_of(query, found, lambda rows: SecretSerializer(rows, many=True).data))

    @documented(
        "Set a secret, a new one or another value of the one with its name",
        answer=SecretSerializer,
        status=201,
        refusals=(409, 413, 415),
        request=SecretAsked,
        operation_id="secrets_set",
        description="Members do this. A job gets the value that there is when it starts.",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request, known=("name", "value", "tenant"))
        tenant = None if body.get("tenant") is None else checks.text(body["tenant"], "tenant", max_chars=63)
        made = secret_set(
            actor=request.user, tenant=_tenant(request, tenant), name=body.get("name"), value=body.get("value")
        )
        return Response(SecretSerializer(made).data, status=201)


class SecretView(ApiView):
    write_scope = "jobs:write"

    @documented(
        "Remove a secret",
        answer=None,
        status=204,
        refusals=(404,),
        parameters=(OpenApiParameter("name", str, OpenApiParameter.PATH, description="Of the secret."), TENANT),
        operation_id="secrets_remove",
        description="A tenant's managers do this. A job that names it fails when it starts the next time.",
    )
    def delete(self, request: Request, name: str) -> Response:
        checks.text_safe(name, "name")
        tenant = Query(request, known=("tenant",)).text("tenant", max_chars=63)
        secret_remove(actor=request.user, tenant=_tenant(request, tenant), name=name)
        return Response(status=204)
