"""The common part of the agents' views: the caller, and the reading of bodies and query strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.permissions import IsAuthenticated
from rest_framework.views import APIView

from portal.foundation.errors import BerthError, Conflict
from portal.nodes.authentication import NodeToken
from portal.work.jobs.keys import KEY_PATTERN

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.cluster.models import Node

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
