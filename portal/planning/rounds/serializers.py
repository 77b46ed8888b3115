"""The REST API's shapes of rounds and plannings."""

from __future__ import annotations

import math
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.planning.rounds.models import Planning, Round

_ANYTHING = {"type": "object", "additionalProperties": {}}


def finite(value: Any) -> Any:
    """Return figures as JSON knows them: a number that is not finite is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class PlanningSerializer(serializers.ModelSerializer):
    round = serializers.IntegerField(source="round.number", read_only=True)
    status = serializers.ChoiceField(choices=Planning.Status.choices, read_only=True)
    solver = serializers.SerializerMethodField()
    metrics = serializers.SerializerMethodField()

    class Meta:
        model = Planning
        fields = """
            number round started_at status replan policy queue_length window_jobs placed dropped load_s plan_s
            apply_s solver metrics
        """.split()
        read_only_fields = fields

    @extend_schema_field(_ANYTHING)
    def get_solver(self, planning: Planning) -> dict[str, Any]:
        return finite(planning.solver)

    @extend_schema_field(_ANYTHING)
    def get_metrics(self, planning: Planning) -> dict[str, Any]:
        return finite({name: value for name, value in planning.metrics.items() if name != "faults"})


class RoundSerializer(serializers.ModelSerializer):
    plannings = serializers.SerializerMethodField()
    placed = serializers.SerializerMethodField()
    metrics = serializers.SerializerMethodField(
        help_text="Means over its plannings, weighted by time; {} until the round has ended."
    )

    class Meta:
        model = Round
        fields = ["number", "started_at", "ended_at", "plannings", "placed", "metrics"]
        read_only_fields = fields

    def get_plannings(self, row: Round) -> int:
        return row.planning_count or row.metrics.get("plannings", 0)

    def get_placed(self, row: Round) -> int:
        return row.placed_count or row.metrics.get("placed", 0)

    @extend_schema_field(_ANYTHING)
    def get_metrics(self, row: Round) -> dict[str, Any]:
        return finite(row.metrics)


class RoundDetailSerializer(RoundSerializer):
    plannings = PlanningSerializer(source="planning_rows", many=True, read_only=True)

    class Meta(RoundSerializer.Meta):
        fields = ["number", "started_at", "ended_at", "metrics", "plannings"]
        read_only_fields = fields


class PlanningDetailSerializer(PlanningSerializer):
    decisions = serializers.SerializerMethodField(
        help_text="What was decided of each job, in the order of the queue; other tenants' jobs without their ids."
    )
    decisions_count = serializers.IntegerField(read_only=True)
    decisions_next = serializers.URLField(
        read_only=True, allow_null=True, help_text="The URL of the next page of decisions; null: there is none."
    )
    decisions_previous = serializers.URLField(read_only=True, allow_null=True)
    parameters = serializers.SerializerMethodField(help_text="The operator's settings that the planning used.")
    outcomes = serializers.SerializerMethodField(
        help_text="What it stopped, keeps for jobs, and gave up; other tenants' jobs without their ids."
    )

    class Meta(PlanningSerializer.Meta):
        fields = [
            *PlanningSerializer.Meta.fields,
            "parameters",
            "outcomes",
            "decisions_count",
            "decisions_next",
            "decisions_previous",
            "decisions",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "array", "items": _ANYTHING})
    def get_decisions(self, planning: Planning) -> list[dict[str, Any]]:
        return finite(planning.shown_decisions)

    @extend_schema_field(_ANYTHING)
    def get_outcomes(self, planning: Planning) -> dict[str, Any]:
        return finite(planning.shown_outcomes)

    @extend_schema_field(_ANYTHING)
    def get_parameters(self, planning: Planning) -> dict[str, Any]:
        return finite(planning.parameters)


class PlacedPart(serializers.Serializer):
    node = serializers.CharField()
    gpus = serializers.IntegerField()
    cores = serializers.IntegerField()


class StartRange(serializers.Serializer):
    """When it is expected to start, from simulating the queue forward; `latest_at` null: beyond what was simulated."""

    earliest_at = serializers.DateTimeField()
    median_at = serializers.DateTimeField(allow_null=True)
    latest_at = serializers.DateTimeField(allow_null=True)


class SimilarJobs(serializers.Serializer):
    """Run times of the tenant's latest completed jobs that are like it: a duration to declare."""

    words = serializers.CharField(help_text="Which jobs: Your last 12 jobs of this size and the category cv.")
    runs = serializers.IntegerField()
    low_s = serializers.FloatField(help_text="Most took from this time ...")
    median_s = serializers.FloatField()
    high_s = serializers.FloatField(help_text="... to this time.")
    declare_s = serializers.IntegerField(help_text="The middle, rounded: an `expected_duration_s`.")


class SimilarAnswer(serializers.Serializer):
    similar = SimilarJobs(allow_null=True, help_text="Null: its length is given, or too few jobs are like it.")


class PlanAnswer(SimilarAnswer):
    """What the next planning would decide about a description."""

    at = serializers.DateTimeField()
    placeable = serializers.BooleanField(help_text="Whether the job would start with the next planning.")
    reason = serializers.CharField(
        allow_null=True, help_text="Why it would not start: one of the reasons in docs/concepts.md; null if it would."
    )
    sentence = serializers.CharField()
    figures = serializers.DictField(
        help_text="The figures behind the reason, or those of the configuration that was chosen."
    )
    placement = PlacedPart(
        many=True, allow_null=True, help_text="On which nodes it would start, with how many GPUs and cores."
    )
    cores = serializers.IntegerField(help_text="The cores that it wants for each GPU; a CPU job: in all.")
    array = serializers.CharField(allow_null=True)
    side = serializers.CharField(
        allow_null=True, help_text="Its place in the window of its array: front, backfill or outside."
    )
    queue = serializers.CharField(
        allow_null=True, help_text="The queue in which it would wait: gpu-small, gpu-large, gpu or cpu."
    )
    place = serializers.IntegerField(
        allow_null=True, help_text="Its place in that queue, 1 being the first; null: it would not wait."
    )
    queue_length = serializers.IntegerField(
        allow_null=True, help_text="How many jobs would wait in that queue, this one included."
    )
    ahead = serializers.IntegerField(allow_null=True, help_text="How many waiting jobs stand before it in that queue.")
    latency_ratio = serializers.FloatField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True, help_text="Its expected run time in seconds.")
    age_source = serializers.CharField(allow_blank=True)
    start = StartRange(
        allow_null=True, help_text="When it would start; null: not without a change, or later than was simulated."
    )


class MetricsPoint(serializers.Serializer):
    at = serializers.DateTimeField()
    planning = serializers.IntegerField()
    queue_length = serializers.IntegerField(
        help_text="How many jobs the planning put in order, with those that it then started."
    )
    metrics = serializers.DictField(child=serializers.FloatField(allow_null=True))


class RoundPoint(serializers.Serializer):
    from_round = serializers.IntegerField(help_text="The number of the first round in this stretch.")
    rounds = serializers.IntegerField(help_text="How many rounds it stands for; their means are weighted by time.")
    start = serializers.DateTimeField()
    until = serializers.DateTimeField()
    metrics = serializers.DictField(child=serializers.FloatField(allow_null=True))


class QueueNow(serializers.Serializer):
    """How many jobs wait now, each task of an array as one: `waiting` = `eligible` + those set aside."""

    waiting = serializers.IntegerField()
    eligible = serializers.IntegerField(help_text="Jobs that wait for their turn or for room.")
    set_aside = serializers.DictField(
        child=serializers.IntegerField(), help_text="Jobs that wait and could not start now, by reason."
    )
    held = serializers.IntegerField(help_text="Held jobs. They do not count as waiting.")


class MetricsAnswer(serializers.Serializer):
    now = serializers.DictField(help_text="The cluster's latest figures; null where there is no data.")
    queue = QueueNow()
    series = MetricsPoint(many=True, help_text="One point a planning, thinned to at most 240.")
    rounds = RoundPoint(many=True, help_text="One point a round, merged to at most 240; the present round is the last.")
