"""`/api/v1/nodes`: the nodes and their jobs; drain, resume and declare dead for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.response import Response

from portal.cluster.selectors import node_get, nodes_listed_for
from portal.cluster.services.health import gpu_cordon, gpu_resume
from portal.cluster.services.operating import node_declare_dead, node_drain, node_resume
from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, body_of, ordered, page_of, reason_of
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


def _deed(
    operation: str,
    summary: str,
    act: Callable[..., object],
    *,
    reason: bool,
    path: tuple[OpenApiParameter, ...] = NODE_PATH,
    refusals: tuple[int, ...] = (404, 413, 415),
) -> type[ApiView]:
    """Make the view of one deed of operators on a node, or on a GPU of it; it answers with the node as it is then."""

    @documented(
        summary,
        answer=NodeDetailSerializer,
        refusals=refusals,
        parameters=path,
        request=Reason if reason else None,
        operation_id=operation,
    )
    def post(self: ApiView, request: Request, name: str, **more: int) -> Response:
        node = node_of(request, name)
        given = {"reason": reason_of(request)} if reason else body_of(request)
        act(node=node, actor=request.user, **more, **given)
        node.refresh_from_db()
        return node_answer(request, node)

    return type(
        f"{operation}View", (ApiView,), {"write_scope": "operator", "http_method_names": ["post"], "post": post}
    )


NodeDrainView = _deed("nodes_drain", "Place nothing new on a node", node_drain, reason=True)
NodeResumeView = _deed("nodes_resume", "Place jobs on a node again", node_resume, reason=False)
GpuCordonView = _deed("gpus_cordon", "Give a GPU to no new job", gpu_cordon, reason=True, path=GPU_PATH)
GpuResumeView = _deed(
    "gpus_resume",
    "Give a GPU to jobs again; what its checks still find is set aside until it comes again",
    gpu_resume,
    reason=False,
    path=GPU_PATH,
)
NodeDeadView = _deed(
    "nodes_dead",
    "Declare a silent node dead: what it held is lost and given back at once",
    node_declare_dead,
    reason=True,
    refusals=(404, 409, 413, 415),
)
