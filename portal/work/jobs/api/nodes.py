"""`/api/v1/nodes`: the nodes and their jobs; drain, resume and declare dead for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from portal.cluster.selectors import node_get, nodes_listed_for
from portal.cluster.services.health import gpu_cordon, gpu_resume
from portal.cluster.services.operating import node_declare_dead, node_drain, node_resume
from portal.foundation.api.base import ApiView, body_of, reason_of
from portal.foundation.api.queries import PAGE_PARAMETERS, Query, ordered, page_of
from portal.foundation.api.schema import PAGING, RawSchema, documented, ordering_parameter, page_schema, parameter
from portal.foundation.errors import NotFound
from portal.people.tenants.authentication import tenant_of
from portal.work.jobs.node_use import nodes_active, nodes_counted, nodes_with_use
from portal.work.jobs.serializers.nodes import NodeDetailSerializer, NodeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.request import Request

    from portal.cluster.models import Node

NODE_PATH = (OpenApiParameter("name", str, OpenApiParameter.PATH),)
MOST_HOURS = 168
HOURS = parameter(
    "hours",
    {"type": "integer", "minimum": 1, "maximum": MOST_HOURS, "default": 1},
    "So many hours the active rates look back.",
)
GPU_PATH = (*NODE_PATH, OpenApiParameter("index", int, OpenApiParameter.PATH))
ORDERINGS = ("id", "name", "cores", "last_contact_at", "registered_at")


def node_of(request: Request, name: str) -> Node:
    if "\0" in name:
        raise NotFound("node")
    return node_get(user=request.user, name=name)


def node_answer(request: Request, node: Node, *, hours: int = 1) -> Response:
    (node,) = nodes_active(nodes_with_use([node], user=request.user, tenant=tenant_of(request)), hours=hours)
    return Response(NodeDetailSerializer(node, context={"user": request.user}).data)


class NodesView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "List nodes",
        answer=page_schema(NodeSerializer, "NodePage"),
        parameters=(
            *PAGING,
            ordering_parameter(ORDERINGS),
            parameter("gpu_type"),
            HOURS,
        ),
        operation_id="nodes_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "ordering", "gpu_type", "hours"))
        hours = query.whole("hours", 1, 1, MOST_HOURS) or 1
        nodes = nodes_listed_for(request.user)
        if gpu_type := query.text("gpu_type", max_chars=64):
            nodes = nodes.with_type(gpu_type)
        nodes = ordered(query, nodes, allowed=ORDERINGS, default="name")

        def rows(page: list[Node]) -> Any:
            return NodeSerializer(nodes_active(nodes_counted(page), hours=hours), many=True).data

        return Response(page_of(query, nodes, rows))


class NodeView(ApiView):
    read_scope = "cluster:read"

    @documented(
        "Show a node",
        answer=NodeDetailSerializer,
        refusals=(404,),
        parameters=(*NODE_PATH, HOURS),
        operation_id="nodes_show",
    )
    def get(self, request: Request, name: str) -> Response:
        query = Query(request, known=("hours",))
        return node_answer(request, node_of(request, name), hours=query.whole("hours", 1, 1, MOST_HOURS) or 1)


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

    def done(
        self, request: Request, name: str, act: Callable[..., object], *, has_reason: bool = True, **more: Any
    ) -> Response:
        """Do what the caller asks of a node, and answer with the node as it is then."""
        node = node_of(request, name)
        given = {"reason": reason_of(request)} if has_reason else body_of(request)
        act(node=node, actor=request.user, **more, **given)
        node.refresh_from_db()
        return node_answer(request, node)


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
        return self.done(request, name, node_drain)


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
        return self.done(request, name, node_resume, has_reason=False)


class GpuCordonView(OperatorView):
    @documented(
        "Give a GPU to no new job",
        answer=NodeDetailSerializer,
        refusals=(404, 413, 415),
        parameters=GPU_PATH,
        request=Reason,
        operation_id="gpus_cordon",
    )
    def post(self, request: Request, name: str, index: int) -> Response:
        return self.done(request, name, gpu_cordon, index=index)


class GpuResumeView(OperatorView):
    @documented(
        "Give a GPU to jobs again; what its checks still find is set aside until it comes again",
        answer=NodeDetailSerializer,
        refusals=(404, 413, 415),
        parameters=GPU_PATH,
        request=None,
        operation_id="gpus_resume",
    )
    def post(self, request: Request, name: str, index: int) -> Response:
        return self.done(request, name, gpu_resume, has_reason=False, index=index)


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
        return self.done(request, name, node_declare_dead)
