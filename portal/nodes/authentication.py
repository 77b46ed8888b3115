"""An agent's identity: its node token, hashed in the database, revocable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed

from portal.cluster.models import Node
from portal.people.tenants.services import secret_digest

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
