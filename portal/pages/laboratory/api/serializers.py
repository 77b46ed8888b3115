"""Requests to the laboratory over REST, and its answers. Units stand in the names; times are ISO-8601 in UTC.

`orders.order_parse` checks the requests.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from portal.foundation.api.schema import RawSchema
from portal.pages.laboratory.limits import MOST_HOURS, MOST_POLICIES, MOST_SEED
from portal.pages.laboratory.models import LabTrace, SharedWith, Simulation
from portal.pages.laboratory.orders import DESCRIBED, HERE, OWN
from portal.pages.laboratory.run.answer import size_of
from portal.pages.laboratory.selectors import simulations_ahead
from portal.pages.laboratory.sources.generators import GENERATORS
from scheduler.parameters import PARAMETERS
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS

NUMBER_OR_WORD = {"oneOf": [{"type": "number"}, {"type": "string"}], "nullable": True}
_TENANT = {"type": "string", "description": "One of yours; needed where you have several."}
_NAME = {"type": "string", "maxLength": 100}


class SimulationAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["name", "policies"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "tenant": _TENANT,
            "trace": {"type": "integer", "minimum": 1, "description": "The number of a trace; or a generator."},
            "generator": {"type": "string", "enum": list(GENERATORS)},
            "jobs": {"type": "integer", "minimum": 1, "description": "How many the generator draws."},
            "cluster": {
                "type": "string",
                "enum": [HERE, OWN, DESCRIBED],
                "description": "This cluster as it is now, the generator's own, or the description's.",
            },
            "description": {
                "oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {}}],
                "description": "A cluster as in `examples/clusters/`: YAML, or the same as an object.",
            },
            "policies": {
                "type": "array",
                "items": {"type": "string", "enum": [*POLICIES, *RIVALS]},
                "minItems": 1,
                "maxItems": MOST_POLICIES,
            },
            "knobs": {
                "type": "object",
                "properties": {each.name: NUMBER_OR_WORD for each in PARAMETERS if each.name != "policy"},
                "additionalProperties": False,
                "description": "Those not given are at their default.",
            },
            "seed": {"type": "integer", "minimum": 0, "maximum": MOST_SEED, "default": 1},
            "until_h": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": MOST_HOURS},
        },
    }


EXAMPLES = (
    OpenApiExample(
        "a drawn workload under two policies",
        {"name": "berth or fifo", "generator": "hops-64", "jobs": 50, "cluster": "own", "policies": ["berth", "fifo"]},
        request_only=True,
    ),
    OpenApiExample(
        "a trace on twice the nodes, with another knob",
        {
            "name": "sixteen nodes",
            "trace": 12,
            "description": {"nodes": [{"count": 16, "gpu_type": "A100", "gpus": 8, "cores": 64, "memory_gib": 512}]},
            "policies": ["berth"],
            "knobs": {"lambda": 2},
        },
        request_only=True,
    ),
)


class HistoryAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["days"],
        "additionalProperties": False,
        "properties": {
            "days": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "description": "The last so many."},
            "tenant": _TENANT,
            "name": _NAME,
        },
    }


class Sharing(RawSchema):
    schema = {
        "type": "object",
        "required": ["shared_with"],
        "additionalProperties": False,
        "properties": {"shared_with": {"type": "string", "enum": SharedWith.values}},
    }


_KNOBS = {"type": "object", "additionalProperties": {}}
_SHARES = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
_FIGURES = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {}}}


class OwnedSerializer(serializers.ModelSerializer):
    """The fields that simulations and traces share."""

    tenant = serializers.CharField(source="tenant.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    shared_with = serializers.ChoiceField(choices=SharedWith.choices, read_only=True)


class TraceSerializer(OwnedSerializer):
    """A trace with what was found when its every line was read."""

    url = serializers.SerializerMethodField()
    origin = serializers.CharField(
        read_only=True, help_text="`upload`: somebody sent it; `history`: it was made from what this cluster ran."
    )
    all_tenants = serializers.BooleanField(
        read_only=True, help_text="Whether it has the jobs of all tenants. Then only operators see it."
    )
    size_bytes = serializers.IntegerField(read_only=True)
    jobs = serializers.IntegerField(read_only=True)
    span_s = serializers.FloatField(read_only=True, help_text="Seconds from the first arrival to the last.")

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
    generator = serializers.SerializerMethodField(
        help_text="The generator that drew the jobs; null: they are a trace's."
    )
    jobs = serializers.SerializerMethodField(help_text="How many jobs the trace has, or were drawn.")
    cluster = serializers.CharField(source="cluster_name", read_only=True)
    policies = serializers.ListField(child=serializers.CharField(), read_only=True)
    knobs = serializers.SerializerMethodField(help_text="The knobs that are not at their defaults.")
    until_h = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Virtual hours after which it is cut off; null: it runs to its end."
    )
    progress = serializers.SerializerMethodField(help_text="By policy, the fraction of its jobs that have ended.")
    error = serializers.CharField(read_only=True, help_text="Why it failed; empty if it did not.")

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

    ahead = serializers.SerializerMethodField(help_text="How many simulations wait or run before it; 0 once it runs.")
    nodes = serializers.SerializerMethodField()
    gpus = serializers.SerializerMethodField()
    figures = serializers.SerializerMethodField(
        help_text="The figures of each policy; {} until the simulation has completed."
    )
    turns = serializers.JSONField(
        read_only=True,
        help_text="The price of turns by shares, by one more run without: `cost`, the part of the mean JCT without them that "
        "they add, `clear` of chance, and the `tenant` that waits longest without them, `times` as long. {}: not known.",
    )

    class Meta(SimulationSerializer.Meta):
        fields = [*SimulationSerializer.Meta.fields, "ahead", "nodes", "gpus", "figures", "turns"]
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
    policies = serializers.DictField(child=serializers.DictField(), help_text="The figures of each policy.")
    curves = serializers.DictField(child=serializers.DictField(), help_text="What the plots show of each policy.")
