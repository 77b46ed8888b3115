"""The common part of the agents' views: the node that calls, by its revocable token, and the reading of its message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import IsAuthenticated
from rest_framework.views import APIView

from portal.cluster.models import Node
from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.services import secret_digest
from portal.work.jobs.keys import KEY_PATTERN

if TYPE_CHECKING:
    from rest_framework.request import Request


class NodePrincipal:
    """`request.user` on the agent API: a node, never a person."""

    is_authenticated = True
    is_active = True
    is_operator = is_staff = is_superuser = False
    pk = None

    def __init__(self, node: Node) -> None:
        self.node = node


def node_by_token(secret: str) -> Node | None:
    return Node.objects.filter(token_digest=secret_digest(secret), token_revoked_at=None).first()


def bearer_secret(header: bytes) -> str | None:
    """Return the secret of an `Authorization: Bearer` header, or None."""
    parts = header.split()
    if len(parts) != 2 or parts[0].lower() != b"bearer":
        return None
    return parts[1].decode("ascii", "replace")


class NodeToken(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[NodePrincipal, Node]:
        secret = bearer_secret(get_authorization_header(request))
        node = node_by_token(secret) if secret else None
        if node is None:
            raise AuthenticationFailed("This node token is unknown or revoked.", code="bad_token")
        return NodePrincipal(node), node

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


MOST_NUMBER = 2**62


def checked(serializer_class: type, data: Any) -> dict[str, Any]:
    serializer = serializer_class(data=data)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data


class AgentView(APIView):
    authentication_classes = (NodeToken,)
    permission_classes = (IsAuthenticated,)
    metadata_class = None  # OPTIONS answers 405: the protocol is described in one place

    @property
    def node(self) -> Node:
        return self.request.user.node

    def boot_check(self, boot_id: str) -> None:
        if boot_id != self.node.boot_id:
            raise Conflict("boot_changed", "This boot id is not the one of the last hello; say hello first.")


def parameter_of(name: str, kind: Any, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, required=True, **more)


def key_of(request: Request) -> str:
    key = request.query_params.get("attempt", "")
    if not re.fullmatch(KEY_PATTERN, key):
        raise BerthError("invalid", "attempt must be an attempt's key: 32 hexadecimal digits.", field="attempt")
    return key


def number_of(request: Request, name: str) -> int:
    raw = request.query_params.get(name, "")
    if not raw.isascii() or not raw.isdigit() or len(raw) > 19 or int(raw) > MOST_NUMBER:
        raise BerthError("invalid", f"{name} must be a whole number from 0.", field=name)
    return int(raw)
