"""`/api/v1/tenants/{name}/members` and `/invitations`: the tenant's page as REST, by the same services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation import checks
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, body_of, page_of
from portal.foundation.api.schema import PAGING, documented, page_schema
from portal.foundation.errors import BerthError, NotFound
from portal.people.accounts.members import (
    DAYS,
    invitation_make,
    invitation_withdraw,
    invitations_open,
    member_remove,
    member_role_set,
    members_of,
)
from portal.people.tenants.authentication import tenant_of
from portal.people.tenants.models import Membership
from portal.people.tenants.selectors import manage_check, tenant_find

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.people.accounts.models import Invitation
    from portal.people.tenants.models import Tenant

ROLES = Membership.Role.values
MOST_CHARS = 150
"""The most characters of a user's name."""


def _path(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.PATH, description=description)


TENANT = (_path("name", "The tenant's name."),)
MEMBER = (*TENANT, _path("username", "The member's user name."))


class Member(serializers.Serializer):
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=Membership.Role.choices)


class RoleGiven(serializers.Serializer):
    role = serializers.ChoiceField(choices=Membership.Role.choices)


class InvitationGiven(serializers.Serializer):
    role = serializers.ChoiceField(choices=Membership.Role.choices, help_text="What who follows the link becomes.")
    days = serializers.ChoiceField(choices=DAYS, required=False, help_text="Days that the link works. Missing: 7.")


class OpenInvitation(serializers.Serializer):
    number = serializers.IntegerField()
    role = serializers.ChoiceField(choices=Membership.Role.choices)
    made_by = serializers.CharField(allow_null=True, help_text="Null: that account is gone, and the link is dead.")
    expires_at = serializers.DateTimeField()


class NewInvitation(OpenInvitation):
    url = serializers.CharField(help_text="The link, shown this once. It works once, for who has an account.")


def _tenant(request: Request, name: str) -> Tenant:
    return tenant_find(user=request.user, name=name, only=tenant_of(request))


def _member(row: Membership) -> dict[str, Any]:
    return {"username": row.user.username, "role": row.role}


def _invitation(row: Invitation) -> dict[str, Any]:
    maker = row.made_by.username if row.made_by else None
    return {"number": row.pk, "role": row.role, "made_by": maker, "expires_at": row.expires_at}


def _role(body: dict[str, Any]) -> str:
    if "role" not in body:
        raise BerthError("required", f"Say which role: one of {', '.join(ROLES)}.", field="role")
    return checks.choice(body["role"], "role", ROLES)


class MembersView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "List a tenant's members with their roles",
        answer=page_schema(Member, "MemberPage"),
        refusals=(404,),
        parameters=(*PAGING, *TENANT),
        operation_id="members_list",
    )
    def get(self, request: Request, name: str) -> Response:
        query = Query(request, known=PAGE_PARAMETERS)
        found = members_of(_tenant(request, name))
        return Response(page_of(query, found, lambda rows: Member([_member(each) for each in rows], many=True).data))


class MemberView(ApiView):
    write_scope = "members:write"

    @documented(
        "Give a member another role",
        answer=Member,
        refusals=(404, 409, 413, 415),
        parameters=MEMBER,
        request=RoleGiven,
        operation_id="members_change",
        description="Managers do this. A tenant's last manager stays one (409 `last_manager`).",
    )
    def patch(self, request: Request, name: str, username: str) -> Response:
        tenant, role = _tenant(request, name), _role(body_of(request, known=["role"]))
        found = member_role_set(tenant=tenant, username=_username(username), role=role, actor=request.user)
        return Response(Member(_member(found)).data)

    @documented(
        "Remove a member",
        answer=None,
        status=204,
        refusals=(404, 409),
        parameters=MEMBER,
        operation_id="members_remove",
        description="Managers do this. The person's tokens for the tenant and browser sessions end at once; jobs go on.",
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        Query(request, known=())
        member_remove(tenant=_tenant(request, name), username=_username(username), actor=request.user)
        return Response(status=204)


def _username(text: str) -> str:
    """Return a name that the database can be asked for; one that is none is nobody's."""
    try:
        return checks.text(text, "username", max_chars=MOST_CHARS)
    except BerthError:
        raise NotFound("member") from None


class InvitationsView(ApiView):
    read_scope, write_scope = "jobs:read", "members:write"

    @documented(
        "List a tenant's open invitations",
        answer=page_schema(OpenInvitation, "InvitationPage"),
        refusals=(404,),
        parameters=(*PAGING, *TENANT),
        operation_id="invitations_list",
        description="For its managers. The links themselves are kept nowhere.",
    )
    def get(self, request: Request, name: str) -> Response:
        query, tenant = Query(request, known=PAGE_PARAMETERS), _tenant(request, name)
        manage_check(request.user, tenant)
        found = invitations_open(tenant).select_related("made_by").order_by("-pk")
        return Response(
            page_of(query, found, lambda rows: OpenInvitation([_invitation(each) for each in rows], many=True).data)
        )

    @documented(
        "Invite somebody by a link that works once",
        answer=NewInvitation,
        status=201,
        refusals=(404, 409, 413, 415),
        parameters=TENANT,
        request=InvitationGiven,
        operation_id="invitations_make",
    )
    def post(self, request: Request, name: str) -> Response:
        tenant, body = _tenant(request, name), body_of(request, known=["role", "days"])
        role, days = _role(body), checks.whole(body.get("days", 7), "days", min(DAYS), max(DAYS))
        made, secret = invitation_make(tenant=tenant, role=role, days=days, actor=request.user)
        url = request.build_absolute_uri(reverse("invitation", args=[secret]))
        return Response(NewInvitation(_invitation(made) | {"url": url}).data, status=201)


class InvitationView(ApiView):
    write_scope = "members:write"

    @documented(
        "Withdraw an invitation: its link works no more",
        answer=None,
        status=204,
        refusals=(404,),
        parameters=(*TENANT, _path("number", "The invitation's number.")),
        operation_id="invitations_withdraw",
    )
    def delete(self, request: Request, name: str, number: str) -> Response:
        Query(request, known=())
        tenant = _tenant(request, name)
        manage_check(request.user, tenant)
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise NotFound("invitation")
        invitation_withdraw(tenant=tenant, number=int(number), actor=request.user)
        return Response(status=204)
