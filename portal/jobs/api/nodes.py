"""`/api/v1/nodes`: the nodes and what is held on them; drain, resume and declare dead for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from portal.api.base import ApiView, body_of, reason_of
from portal.api.queries import PAGE_PARAMETERS, Query, ordered, page_of
from portal.api.schema import PAGING, RawSchema, documented, ordering_parameter, page_schema, parameter
from portal.cluster.selectors import node_get, nodes_visible_to
from portal.cluster.serializers import NodeDetailSerializer, NodeSerializer
from portal.cluster.services import node_declare_dead, node_drain, node_resume
from portal.errors import NotFound
from portal.jobs.node_use import nodes_counted, nodes_with_use
from portal.tenants.authentication import tenant_of

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.cluster.models import Node

NODE_PATH = (OpenApiParameter("name", str, OpenApiParameter.PATH),)
ORDERINGS = ("id", "name", "cores", "last_contact_at", "registered_at")


def node_of(request: Request, name: str) -> Node:
    if "\0" in name:
        raise NotFound("node")
    return node_get(user=request.user, name=name)


def node_answer(request: Request, node: Node) -> Response:
    (node,) = nodes_with_use([node], user=request.user, tenant=tenant_of(request))
    return Response(NodeDetailSerializer(node).data)


class NodesView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "List nodes",
        answer=page_schema(NodeSerializer, "NodePage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("gpu_type"),
        ),
        operation_id="nodes_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "gpu_type"))
        nodes = nodes_visible_to(request.user)
        if gpu_type := query.text("gpu_type", max_chars=64):
            nodes = nodes.filter(gpu_type__name=gpu_type)
        nodes = ordered(query, nodes, allowed=ORDERINGS, default="name")

        def rows(page: list[Node]) -> Any:
            return NodeSerializer(nodes_counted(page), many=True).data

        return Response(page_of(query, nodes, rows))


class NodeView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "Show a node", answer=NodeDetailSerializer, refusals=(404,), parameters=NODE_PATH, operation_id="nodes_show"
    )
    def get(self, request: Request, name: str) -> Response:
        return node_answer(request, node_of(request, name))


class Reason(RawSchema):
    schema = {
        "type": "object",
        "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 200}},
        "required": ["reason"],
        "additionalProperties": False,
    }


class OperatorView(ApiView):
    write_scope = "operator"
    http_method_names: ClassVar[list[str]] = ["post"]


class NodeDrainView(OperatorView):
    @documented(
        "Place nothing new on a node",
        answer=NodeDetailSerializer,
        refusals=(404, 413, 415),
        parameters=NODE_PATH,
        request=Reason,
        operation_id="nodes_drain",
    )
    def post(self, request: Request, name: str) -> Response:
        node = node_of(request, name)
        return node_answer(request, node_drain(node=node, actor=request.user, reason=reason_of(request)))


class NodeResumeView(OperatorView):
    @documented(
        "Place jobs on a node again",
        answer=NodeDetailSerializer,
        refusals=(404, 413, 415),
        parameters=NODE_PATH,
        request=None,
        operation_id="nodes_resume",
    )
    def post(self, request: Request, name: str) -> Response:
        node = node_of(request, name)
        body_of(request)
        return node_answer(request, node_resume(node=node, actor=request.user))


class NodeDeadView(OperatorView):
    @documented(
        "Declare a silent node dead: what it held is lost and given back at once",
        answer=NodeDetailSerializer,
        refusals=(404, 409, 413, 415),
        parameters=NODE_PATH,
        request=Reason,
        operation_id="nodes_dead",
    )
    def post(self, request: Request, name: str) -> Response:
        node = node_of(request, name)
        return node_answer(request, node_declare_dead(node=node, actor=request.user, reason=reason_of(request)))
