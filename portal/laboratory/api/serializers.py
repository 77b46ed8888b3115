"""What the REST API says about simulations and traces. Units stand in the names; times are ISO-8601 in UTC."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.laboratory.models import LabTrace, SharedWith, Simulation
from portal.laboratory.run.answer import size_of
from portal.laboratory.selectors import simulations_ahead

_KNOBS = {"type": "object", "additionalProperties": {}}
_SHARES = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
_FIGURES = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {}}}


class OwnedSerializer(serializers.ModelSerializer):
    """What simulations and traces have in common."""

    tenant = serializers.CharField(source="tenant.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    shared_with = serializers.ChoiceField(choices=SharedWith.choices, read_only=True)


class TraceSerializer(OwnedSerializer):
    """A trace with what was found when its every line was read."""

    url = serializers.SerializerMethodField()
    origin = serializers.CharField(read_only=True, help_text="`upload`, or `history`: the cluster's own.")
    all_tenants = serializers.BooleanField(read_only=True, help_text="It tells of every tenant's jobs.")
    size_bytes = serializers.IntegerField(read_only=True)
    jobs = serializers.IntegerField(read_only=True)
    span_s = serializers.FloatField(read_only=True, help_text="From the first arrival to the last.")

    class Meta:
        model = LabTrace
        fields = """
            id url name tenant owner shared_with origin all_tenants format jobs span_s size_bytes created_at
        """.split()
        read_only_fields = fields

    def get_url(self, trace: LabTrace) -> str:
        return f"/api/v1/simulations/traces/{trace.pk}"


class SimulationSerializer(OwnedSerializer):
    """A simulation in a list."""

    url = serializers.SerializerMethodField()
    state = serializers.ChoiceField(choices=Simulation.State.choices, read_only=True)
    trace = serializers.IntegerField(source="trace_id", read_only=True, allow_null=True)
    generator = serializers.SerializerMethodField(help_text="Where there is no trace.")
    jobs = serializers.SerializerMethodField(help_text="Of the trace, or drawn.")
    cluster = serializers.CharField(source="cluster_name", read_only=True)
    policies = serializers.ListField(child=serializers.CharField(), read_only=True)
    knobs = serializers.SerializerMethodField(help_text="Those away from their default.")
    until_h = serializers.FloatField(read_only=True, allow_null=True, help_text="Cut off then; null: to the end.")
    progress = serializers.SerializerMethodField(help_text="Policy -> fraction of its jobs that ended.")
    error = serializers.CharField(read_only=True, help_text="Why it failed; else empty.")

    class Meta:
        model = Simulation
        fields = """
            id url name tenant owner shared_with state trace generator jobs cluster policies knobs seed until_h
            progress created_at started_at ended_at cancel_requested_at error
        """.split()
        read_only_fields = fields

    def get_url(self, simulation: Simulation) -> str:
        return f"/api/v1/simulations/{simulation.pk}"

    @extend_schema_field({"type": "string", "nullable": True})
    def get_generator(self, simulation: Simulation) -> str | None:
        return simulation.generator or None

    def get_jobs(self, simulation: Simulation) -> int:
        return simulation.trace.jobs if simulation.trace else simulation.generated_jobs

    @extend_schema_field(_KNOBS)
    def get_knobs(self, simulation: Simulation) -> dict[str, Any]:
        return simulation.knobs

    @extend_schema_field(_SHARES)
    def get_progress(self, simulation: Simulation) -> dict[str, float]:
        return simulation.progress


class SimulationDetailSerializer(SimulationSerializer):
    """A simulation with its answer."""

    ahead = serializers.SerializerMethodField(help_text="How many wait or run before it; 0 once it runs.")
    nodes = serializers.SerializerMethodField()
    gpus = serializers.SerializerMethodField()
    figures = serializers.SerializerMethodField(help_text="Policy -> its figures; {} until it has completed.")

    class Meta(SimulationSerializer.Meta):
        fields = [*SimulationSerializer.Meta.fields, "ahead", "nodes", "gpus", "figures"]
        read_only_fields = fields

    def get_ahead(self, simulation: Simulation) -> int:
        return simulations_ahead(simulation) if simulation.state == Simulation.State.QUEUED else 0

    def get_nodes(self, simulation: Simulation) -> int:
        return size_of(simulation).nodes

    def get_gpus(self, simulation: Simulation) -> int:
        return size_of(simulation).gpus

    @extend_schema_field(_FIGURES)
    def get_figures(self, simulation: Simulation) -> dict[str, Any]:
        return simulation.figures


class SimulationReport(serializers.Serializer):
    """As `./berth simulate --json` prints it."""

    trace = serializers.CharField()
    format = serializers.CharField()
    gpus = serializers.IntegerField()
    seed = serializers.IntegerField()
    knobs = serializers.DictField()
    until_h = serializers.FloatField(allow_null=True)
    policies = serializers.DictField(child=serializers.DictField(), help_text="Policy -> its figures.")
    curves = serializers.DictField(child=serializers.DictField(), help_text="Policy -> what the plots show.")
