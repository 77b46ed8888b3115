"""Attempts in the REST API: runs and profiles, their parts on nodes, and how fast they went."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.cluster.models import Gpu
from portal.work.jobs.models import Allocation, Attempt, CoreSearch, CoreStep, Slowing
from portal.work.jobs.states import AttemptState, StopCause, StopReason


class CoreStepSerializer(serializers.ModelSerializer):
    class Meta:
        model = CoreStep
        fields = ("number", "cores_per_gpu", "from_at", "to_at", "utilisation", "samples_per_s")
        read_only_fields = fields
        extra_kwargs = {
            "number": {"help_text": "Which step of the search it is."},
            "cores_per_gpu": {"help_text": "The cores for each GPU that were held meanwhile."},
            "from_at": {"help_text": "When measuring began."},
            "to_at": {"help_text": "When measuring ended."},
        }


class CoreSearchSerializer(serializers.ModelSerializer):
    """How the cores of an attempt were tuned: each number a GPU that was tried, and the best so far."""

    signal = serializers.ChoiceField(
        choices=CoreSearch.Signal.choices,
        allow_blank=True,
        read_only=True,
        help_text="What is compared; empty: nothing yet.",
    )
    outcome = serializers.ChoiceField(
        choices=CoreSearch.Outcome.choices, allow_blank=True, read_only=True, help_text="Empty while it goes on."
    )
    best = serializers.IntegerField(
        source="state.best", read_only=True, help_text="The best number of cores for each GPU so far."
    )
    steps = CoreStepSerializer(many=True, read_only=True)

    class Meta:
        model = CoreSearch
        fields = ("signal", "outcome", "best", "steps", "begun_at", "done_at")
        read_only_fields = fields


class SlowingSerializer(serializers.ModelSerializer):
    """One time that a CPU job's attempt was slowed, because it took memory bandwidth from a training job."""

    node = serializers.CharField(source="node.name", read_only=True)
    helped = serializers.SerializerMethodField(
        help_text="The training job that it was slowed for; null: another tenant's."
    )
    cause = serializers.ChoiceField(choices=Slowing.Cause.choices, read_only=True)
    outcome = serializers.ChoiceField(
        choices=Slowing.Outcome.choices, allow_blank=True, read_only=True, help_text="Empty while it is slowed."
    )

    class Meta:
        model = Slowing
        fields = ("node", "helped", "means", "cause", "share", "drew", "lost", "from_at", "to_at", "outcome")
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_helped(self, slowing: Slowing) -> str | None:
        other = slowing.helped.job if slowing.helped else None
        return other.number if other and other.tenant_id == slowing.attempt.job.tenant_id else None


class PartSerializer(serializers.Serializer):
    """What an attempt holds on one node."""

    node = serializers.CharField()
    rank = serializers.IntegerField()
    gpus = serializers.ListField(child=serializers.IntegerField())
    cores = serializers.ListField(child=serializers.IntegerField())
    memory_mib = serializers.IntegerField()
    gpu_compute = serializers.FloatField(
        allow_null=True, help_text="The share of its one GPU that it holds beside others; null: its GPUs are its own."
    )
    gpu_memory_mib = serializers.IntegerField(
        allow_null=True, help_text="Of that GPU's memory; null: its GPUs are its own."
    )
    exit_code = serializers.IntegerField(allow_null=True)
    signal = serializers.IntegerField(
        allow_null=True, help_text="The signal that ended its command, which then has no exit code."
    )
    end_reason = serializers.CharField()


@extend_schema_field(PartSerializer(many=True))
class PartsField(serializers.ReadOnlyField):
    """The parts of an attempt."""

    def to_representation(self, value: Attempt) -> list[dict[str, Any]]:
        return [_part(each) for each in value.allocations.all()]


def _part(part: Allocation) -> dict[str, Any]:
    gpus = part.gpu_allocations.all()
    shared = next((each for each in gpus if each.mode == Gpu.Mode.SHARED), None)
    return {
        "node": part.node.name,
        "rank": part.rank,
        "gpus": [held.gpu.index for held in gpus],
        "cores": part.core_ids,
        "memory_mib": part.memory_mib,
        "gpu_compute": None if shared is None else shared.compute / 1000,
        "gpu_memory_mib": None if shared is None else shared.memory_mib,
        "exit_code": part.exit_code,
        "signal": part.signal,
        "end_reason": part.end_reason,
    }


class QueriesSerializer(serializers.Serializer):
    """What an attempt that serves has answered, as it told."""

    answered = serializers.IntegerField()
    late = serializers.IntegerField(
        help_text="Answered later than the operator's `slo_ms`, as it was when the attempt began."
    )
    late_share = serializers.FloatField(help_text="Of the answered ones, 0 to 1.")
    median_ms = serializers.FloatField(allow_null=True, help_text="Null: longer than ten seconds.")
    p99_ms = serializers.FloatField(allow_null=True, help_text="Null: longer than ten seconds.")


class SpeedSerializer(serializers.Serializer):
    """Samples a second over all GPUs: what the attempt measured, beside what was predicted before its first record."""

    samples_per_s = serializers.FloatField(allow_null=True)
    last_samples_per_s = serializers.FloatField(allow_null=True)
    predicted_samples_per_s = serializers.FloatField(
        allow_null=True, help_text="What was predicted before its first record; null where the speed was only assumed."
    )
    predicted_source = serializers.CharField(
        help_text="How it was predicted: entity, type, theory, nodes or assumed; empty for a CPU job."
    )
    samples_saved = serializers.FloatField(
        allow_null=True,
        help_text="How many samples of the job are in the attempt's newest checkpoint; null where the job told of no checkpoint.",
    )
    samples_lost = serializers.FloatField(
        allow_null=True,
        help_text="Samples done after that checkpoint: what the end of the attempt cost, or would cost now.",
    )
    lost_s = serializers.FloatField(allow_null=True, help_text="The seconds that the lost samples took.")
    iterations = serializers.IntegerField()
    records = serializers.IntegerField()
    dropped = serializers.IntegerField(help_text="How many lines the job wrote that were no records.")
    queries = QueriesSerializer(allow_null=True, help_text="Of a server; null for a job that answers no queries.")


class ProgressSerializer(serializers.Serializer):
    """How far a job says it is, over its attempts."""

    samples_done = serializers.FloatField()
    samples_total = serializers.FloatField(allow_null=True)
    fraction = serializers.FloatField(help_text="How much of the job is done, 0 to 1; 0 while the total is not known.")
    at = serializers.DateTimeField()


class AttemptSerializer(serializers.ModelSerializer):
    state = serializers.ChoiceField(choices=AttemptState.choices, read_only=True)
    stop_reason = serializers.ChoiceField(choices=StopReason.choices, allow_blank=True, read_only=True)
    stop_cause = serializers.ChoiceField(
        choices=StopCause.choices, allow_blank=True, read_only=True, help_text="Why a planning stopped it."
    )
    stop_for = serializers.SerializerMethodField(
        help_text="The job it was stopped for; null for none and for another tenant's."
    )
    parts = PartsField(source="*")
    speed = SpeedSerializer(read_only=True, allow_null=True, help_text="Null for an attempt that recorded nothing.")
    core_search = CoreSearchSerializer(read_only=True, allow_null=True, help_text="Null where cores were not tuned.")
    slowings = SlowingSerializer(
        source="slowings_told",
        many=True,
        read_only=True,
        help_text="The last 20 times that it was slowed, the last first.",
    )

    class Meta:
        model = Attempt
        fields = """
            epoch state planning_number gpus cores parts speed core_search slowings created_at started_at ended_at stop_reason
            stop_cause stop_for stop_to_gpus stop_at restart_s exit_code signal end_detail commit
        """.split()
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_stop_for(self, attempt: Attempt) -> str | None:
        wanted = attempt.stop_for
        return wanted.number if wanted and wanted.tenant_id == attempt.job.tenant_id else None


class ProfileSerializer(serializers.ModelSerializer):
    """A measurement of the job's speed on one GPU while it waited; not one of its attempts."""

    number = serializers.IntegerField(
        source="epoch", help_text="The profile's number. Profiles are counted apart from attempts."
    )
    state = serializers.ChoiceField(choices=AttemptState.choices, read_only=True)
    gpu_type = serializers.CharField(source="profile_type.name", default=None, allow_null=True)
    parts = PartsField(source="*")
    speed = SpeedSerializer(read_only=True, allow_null=True, help_text="Null for a profile that recorded nothing.")

    class Meta:
        model = Attempt
        fields = """
            number state gpu_type parts speed time_limit_s planning_number created_at started_at ended_at
            exit_code signal end_detail
        """.split()
        read_only_fields = fields
