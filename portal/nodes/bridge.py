"""The bridges' door: a bridge attaches a partition of another scheduler, and carries Berth's orders there.

docs/bridge-protocol.md has the messages.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, get_args

from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import AllowAny, IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.engines.models import Engine
from portal.engines.services import engine_attach, engine_let_go, engine_seen, orders_hand_out
from portal.foundation.errors import BerthError
from portal.nodes.base import bearer_secret, checked
from portal.nodes.fields import Number
from portal.nodes.pilots import pilots_adjust
from portal.people.tenants.services import secret_digest
from workers.protocol.engine import FORMS, MOST_NODES, MOST_ORDERS, MOST_REASON, State

if TYPE_CHECKING:
    from rest_framework.request import Request

SMALL, DAYS_S = 2**31 - 1, 366 * 86_400
BUSY_S, QUIET_S, BUSY_FOR = 1.0, 3.0, timedelta(seconds=60)
"""The pause of a bridge in the first minute after an order or its end was wanted, and else."""


class Description(serializers.Serializer):
    kind = serializers.ChoiceField(choices=("slurm",))
    cluster = serializers.CharField(max_length=40)
    partition = serializers.CharField(max_length=50)
    form = serializers.ChoiceField(choices=FORMS)
    version = serializers.CharField(max_length=32, allow_blank=True)
    gpus_max = serializers.IntegerField(min_value=0, max_value=SMALL)
    gpus_per_pilot = serializers.IntegerField(min_value=0, max_value=1024, help_text="0: whole nodes.")
    limit_s = serializers.IntegerField(min_value=60, max_value=DAYS_S)
    idle_s = serializers.IntegerField(min_value=1, max_value=DAYS_S)
    tenant = serializers.CharField(max_length=100, required=False, help_text="The only tenant that is served.")


class Enrolled(serializers.Serializer):
    engine = serializers.CharField()
    token = serializers.CharField(help_text="The bridge's own token. It is shown this once.")


class NodeSeen(serializers.Serializer):
    name = serializers.CharField(max_length=100)
    state = serializers.CharField(max_length=64)
    takes_jobs = serializers.BooleanField()
    reason = serializers.CharField(max_length=MOST_REASON, allow_blank=True)
    cores = serializers.IntegerField(min_value=0, max_value=SMALL)
    cores_busy = serializers.IntegerField(min_value=0, max_value=SMALL)
    memory_mib = serializers.IntegerField(min_value=0, max_value=2**40)
    memory_busy_mib = serializers.IntegerField(min_value=0, max_value=2**40)
    gpus = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=1024))
    gpus_busy = serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=1024))


class OrderSeen(serializers.Serializer):
    name = serializers.CharField(max_length=64)
    ticket = serializers.CharField(max_length=64)
    state = serializers.ChoiceField(choices=get_args(State))
    reason = serializers.CharField(max_length=MOST_REASON, allow_blank=True)
    node = serializers.CharField(max_length=100, allow_blank=True)
    since = Number(required=False, allow_null=True, min_value=0, max_value=1e11)
    ends_at = Number(required=False, allow_null=True, min_value=0, max_value=1e11)


class RefusedOrder(serializers.Serializer):
    name = serializers.CharField(max_length=64)
    reason = serializers.CharField(max_length=MOST_REASON)


class Silence(serializers.Serializer):
    since = Number(min_value=0, max_value=1e11)
    reason = serializers.CharField(max_length=MOST_REASON)


class Exchange(serializers.Serializer):
    engine = Description()
    away = Silence(allow_null=True, help_text="The other scheduler does not answer: nothing is known of orders.")
    nodes = serializers.ListField(
        child=NodeSeen(), allow_null=True, max_length=MOST_NODES, help_text="Null: as before."
    )
    orders = serializers.ListField(child=OrderSeen(), max_length=MOST_ORDERS)
    refused = serializers.ListField(child=RefusedOrder(), max_length=MOST_ORDERS)


class Order(serializers.Serializer):
    name = serializers.CharField()
    again = serializers.BooleanField(help_text="It may have been submitted already: it is looked for first.")
    gpus = serializers.IntegerField(help_text="0: a whole node.")
    gpu_type = serializers.CharField(allow_blank=True, help_text="In the other scheduler's word. Empty: any.")
    cores = serializers.IntegerField(help_text="0: as many as its GPUs' share of a node.")
    memory_mib = serializers.IntegerField(help_text="0: the same.")
    limit_s = serializers.IntegerField()
    join_token = serializers.CharField()


class Follow(serializers.Serializer):
    name = serializers.CharField()
    ticket = serializers.CharField(allow_blank=True)


class Exchanged(serializers.Serializer):
    period_s = serializers.FloatField()
    submit = serializers.ListField(child=Order())
    follow = serializers.ListField(child=Follow())
    stop = serializers.ListField(child=Follow())


class BridgePrincipal:
    """`request.user` of a bridge, never a person."""

    is_authenticated = True
    is_active = True
    is_operator = is_staff = is_superuser = False
    pk = None

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


class BridgeToken(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[BridgePrincipal, Engine]:
        secret = bearer_secret(get_authorization_header(request)) or ""
        engine = Engine.objects.filter(token_digest=secret_digest(secret), token_revoked_at=None).first()
        if engine is None:
            raise AuthenticationFailed("This bridge's token is unknown or revoked.", code="bad_token")
        return BridgePrincipal(engine), engine

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class BridgeAttachView(APIView):
    authentication_classes = ()
    permission_classes = (AllowAny,)
    metadata_class = None

    @extend_schema(request=Description, responses={201: Enrolled})
    def post(self, request: Request) -> Response:
        secret = bearer_secret(get_authorization_header(request))
        if not secret:
            raise BerthError("bad_token", "Send the join token as a bearer token.", status=401)
        engine, token = engine_attach(join_secret=secret, description=checked(Description, request.data))
        return Response({"engine": engine.name, "token": token}, status=status.HTTP_201_CREATED)


class BridgeExchangeView(APIView):
    authentication_classes = (BridgeToken,)
    permission_classes = (IsAuthenticated,)
    metadata_class = None

    @extend_schema(request=Exchange, responses=Exchanged)
    def post(self, request: Request) -> Response:
        engine = engine_seen(engine=request.user.engine, body=checked(Exchange, request.data))
        pilots_adjust(engine)
        submit, follow, stop = orders_hand_out(engine=engine)
        engine_let_go(engine=engine)
        recent = timezone.now() - BUSY_FOR
        awaited = engine.jobs.open().filter(Q(node=None, made_at__gt=recent) | Q(stop_at__gt=recent)).exists()
        period_s = BUSY_S if awaited else QUIET_S
        return Response({"period_s": period_s, "submit": submit, "follow": follow, "stop": stop})
