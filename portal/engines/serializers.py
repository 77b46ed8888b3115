"""The partitions of other schedulers, as REST answers. Of others' jobs there only counts are known."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.engines.models import STANDINGS, Engine
from portal.engines.selectors import held_gpus

FIELDS = """
    name kind cluster partition form version capabilities state silent_since gpus gpus_held gpus_others gpus_free gpus_out
    gpus_max gpus_per_pilot limit_s idle_s tenant last_contact_at nodes_at
""".split()


class EngineSerializer(serializers.ModelSerializer):
    """Each engine has its open `orders` and its `hosts`. The context: `sees`, whether the reader sees a tenant; `operates`."""

    capabilities = serializers.SerializerMethodField(help_text="Pages and explanations ask these, never the kind.")
    state = serializers.ChoiceField(
        choices=STANDINGS,
        source="standing",
        read_only=True,
        help_text="silent: its bridge, or the other scheduler, does not answer; the rest is as it was seen last.",
    )
    silent_since = serializers.DateTimeField(read_only=True, allow_null=True)
    gpus = serializers.SerializerMethodField(help_text="GPUs of its nodes.")
    gpus_held = serializers.SerializerMethodField(help_text="Those that Berth holds.")
    gpus_others = serializers.SerializerMethodField(help_text="Those that others' jobs of that scheduler hold.")
    gpus_free = serializers.SerializerMethodField(help_text="Those that nobody holds, on nodes that take jobs.")
    gpus_out = serializers.SerializerMethodField(help_text="Those that nobody holds, on nodes that take none.")
    tenant = serializers.SerializerMethodField(
        help_text="The only tenant that is served; null: all are, or it is not one of yours."
    )

    class Meta:
        model = Engine
        fields = FIELDS
        read_only_fields = fields

    def get_capabilities(self, engine: Engine) -> list[str]:
        return sorted(engine.capabilities)

    def get_gpus(self, engine: Any) -> int:
        return sum(host.total for host in engine.hosts)

    def get_gpus_held(self, engine: Any) -> int:
        return held_gpus(engine.orders)

    def get_gpus_others(self, engine: Any) -> int:
        return sum(host.others for host in engine.hosts)

    def get_gpus_free(self, engine: Any) -> int:
        return sum(host.free for host in engine.hosts)

    def get_gpus_out(self, engine: Any) -> int:
        return sum(host.out for host in engine.hosts)

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_tenant(self, engine: Engine) -> str | None:
        return engine.tenant.name if engine.tenant and self.context["sees"](engine.tenant) else None


class EngineNodeSerializer(serializers.Serializer):
    name = serializers.CharField(help_text="The other scheduler's name of it.")
    state = serializers.CharField(help_text="In that scheduler's word.")
    takes_jobs = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why it takes none; empty: nothing is said.")
    cores = serializers.IntegerField()
    cores_busy = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    memory_busy_mib = serializers.IntegerField()
    gpus = serializers.DictField(child=serializers.IntegerField(), help_text="By type, in that scheduler's words.")
    gpus_busy = serializers.DictField(child=serializers.IntegerField(), help_text="Those that are given to anybody.")
    gpus_held = serializers.IntegerField(help_text="Those that Berth holds.")


class EngineOrderSerializer(serializers.Serializer):
    name = serializers.CharField()
    ticket = serializers.CharField(help_text="That scheduler's number of it; empty: it has none yet.")
    state = serializers.CharField(help_text="wanted, sent, pending or running")
    reason = serializers.CharField(help_text="Why it waits, in that scheduler's word.")
    gpus = serializers.IntegerField()
    host = serializers.CharField(help_text="That scheduler's name of its node; empty: it waits.")
    node = serializers.CharField(
        source="node.name", default=None, allow_null=True, help_text="Berth's node in it; null: none has joined."
    )
    since = serializers.DateTimeField(allow_null=True, help_text="It runs since then, or is expected to start.")
    ends_at = serializers.DateTimeField(allow_null=True)


class EngineDetailSerializer(EngineSerializer):
    nodes = serializers.SerializerMethodField(help_text="As its bridge saw them last.")
    orders = EngineOrderSerializer(many=True, read_only=True, help_text="The jobs of that scheduler that are Berth's.")
    away_reason = serializers.SerializerMethodField(help_text="Why it does not answer. For operators, else empty.")
    refused_at = serializers.SerializerMethodField(
        help_text="When an order was refused last. For operators, else null."
    )
    refused_reason = serializers.SerializerMethodField(
        help_text="In that scheduler's words. For operators, else empty."
    )

    class Meta(EngineSerializer.Meta):
        fields = [*FIELDS, "nodes", "orders", "away_reason", "refused_at", "refused_reason"]
        read_only_fields = fields

    @extend_schema_field(EngineNodeSerializer(many=True))
    def get_nodes(self, engine: Any) -> Any:
        rows = [{**host.seen, "gpus_held": host.held} for host in engine.hosts]
        return EngineNodeSerializer(rows, many=True).data

    def get_away_reason(self, engine: Engine) -> str:
        return engine.away_reason if self.context["operates"] else ""

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_refused_at(self, engine: Engine) -> Any:
        return engine.refused_at if self.context["operates"] else None

    def get_refused_reason(self, engine: Engine) -> str:
        return engine.refused_reason if self.context["operates"] else ""
