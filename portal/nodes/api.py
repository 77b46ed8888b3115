"""The agents' door, docs/agent-protocol.md; `sync`, which waits, is a plain ASGI app in `portal.nodes.sync`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.authentication import get_authorization_header
from rest_framework.permissions import AllowAny
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.cluster.services.contact import node_disk_note, node_leave, node_problems, node_seen
from portal.cluster.services.health import node_health_take
from portal.cluster.services.joining import node_hello, node_register
from portal.cluster.telemetry import telemetry_store
from portal.foundation.api.streams import Streamed
from portal.foundation.disk import disk_require
from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Conflict
from portal.nodes import serializers as shapes
from portal.nodes.base import AgentView, bearer_secret, checked
from portal.nodes.fields import MEASURES, clock_check
from portal.nodes.serializers import Inventory
from portal.nodes.serializers_spec import Secrets, Spec
from portal.planning.estimation.records import records_apply
from portal.work.artefacts.selectors import input_content, with_inputs
from portal.work.jobs.fields.handing import part_secrets
from portal.work.jobs.selectors import attempts_of, part_content_check, part_spec
from portal.work.jobs.services.logs import CHUNK_BYTES
from portal.work.jobs.services.parts import report_apply
from portal.work.uploads.store import blob_path, pieces

if TYPE_CHECKING:
    from rest_framework.request import Request


REPORT_PERIOD_S, GRACE_S = 5, 30


class RegisterView(APIView):
    authentication_classes = ()
    permission_classes = (AllowAny,)
    metadata_class = None

    @extend_schema(request=Inventory, responses={201: shapes.Registered})
    def post(self, request: Request) -> Response:
        secret = bearer_secret(get_authorization_header(request))
        if not secret:
            raise BerthError("bad_token", "Send the join token as a bearer token.", status=401)
        node, token = node_register(join_secret=secret, inventory=checked(Inventory, request.data))
        return Response({"node": node.pk, "name": node.name, "token": token}, status=status.HTTP_201_CREATED)


class HelloView(AgentView):
    @extend_schema(request=Inventory, responses=shapes.Welcome)
    def post(self, request: Request) -> Response:
        inventory = checked(Inventory, request.data)
        if inventory["name"] != self.node.name:
            detail = (
                f"This token is node {self.node.name}'s; start the agent with --name {self.node.name}, or join anew."
            )
            raise Conflict("name_mismatch", detail, field="name")
        node = node_hello(node=self.node, inventory=inventory)
        return Response(
            {
                "node": node.pk,
                "name": node.name,
                "lease_s": env("BERTH_LEASE_S"),
                "report_period_s": REPORT_PERIOD_S,
                "sample_period_s": node.heartbeat_s,
                "grace_s": GRACE_S,
                "lease_grace_s": env("BERTH_LEASE_GRACE_S"),
                "logs_together_bytes": CHUNK_BYTES,
                "measures": {group: list(known) for group, known in MEASURES.items()},
            }
        )


class SpecView(AgentView):
    @extend_schema(responses=Spec)
    def get(self, request: Request, attempt: str) -> Response:
        return Response(with_inputs(part_spec(node=self.node, key=attempt)))


class SecretsView(AgentView):
    @extend_schema(responses=Secrets)
    def get(self, request: Request, attempt: str) -> Response:
        return Response(part_secrets(node=self.node, key=attempt), headers={"Cache-Control": "no-store"})


class ContentView(AgentView):
    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, attempt: str, sha256: str) -> Streamed:
        """Send a file's content of the upload, or of an input, of a job that runs on this node, and of no other."""
        if (found := input_content(node=self.node, key=attempt, sha256=sha256)) is not None:
            length = {"Content-Length": str(found[1])}
            return Streamed(found[0], content_type="application/octet-stream", headers=length)
        part_content_check(node=self.node, key=attempt, sha256=sha256)
        size_bytes = blob_path(sha256).stat().st_size
        return Streamed(
            pieces(sha256), content_type="application/octet-stream", headers={"Content-Length": str(size_bytes)}
        )


class ReportView(AgentView):
    @extend_schema(request=shapes.ReportRequest, responses=shapes.ReportAnswer)
    def post(self, request: Request) -> Response:
        body = checked(shapes.ReportRequest, request.data)
        self.boot_check(body["boot_id"])
        node_seen(node=self.node)
        if "disk" in body:
            node_disk_note(node=self.node, disk=body["disk"])
        if "health" in body:
            node_health_take(node=self.node, **body["health"])
        if "problems" in body:
            node_problems(node=self.node, problems=body["problems"])
        return Response(report_apply(node=self.node, reports=body["reports"], holding=body["holding"]))


class LeaveView(AgentView):
    @extend_schema(request=shapes.Leave, responses={204: None})
    def post(self, request: Request) -> Response:
        body = checked(shapes.Leave, request.data)
        self.boot_check(body["boot_id"])
        node_leave(node=self.node, detail=body["detail"])
        return Response(status=status.HTTP_204_NO_CONTENT)


class TelemetryView(AgentView):
    @extend_schema(request=shapes.Telemetry, responses={204: None})
    def post(self, request: Request) -> Response:
        body = checked(shapes.Telemetry, request.data)
        self.boot_check(body["boot_id"])
        end = body["start"] + (body["count"] - 1) * body["period_s"]
        clock_check(start=body["start"], end=end, now=time.time())
        body["attempts"] = attempts_of(node=self.node, series=body.get("attempts") or {})
        try:
            disk_require()
        except BerthError:
            node_seen(node=self.node)  # in contact all the same; its samples wait in the agent's backlog
            raise
        telemetry_store(node=self.node, batch=body)
        return Response(status=status.HTTP_204_NO_CONTENT)


class RecordsView(AgentView):
    @extend_schema(request=shapes.RecordsRequest, responses=shapes.RecordsAnswer)
    def post(self, request: Request) -> Response:
        body = checked(shapes.RecordsRequest, request.data)
        self.boot_check(body["boot_id"])
        node_seen(node=self.node)
        disk_require()  # it waits in the part's own files
        return Response({"parts": records_apply(node=self.node, parts=body["parts"])})
