"""What the REST API says about jobs. Units stand in the names; times are ISO-8601 in UTC."""

from __future__ import annotations

import base64
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.cluster.models import Gpu
from portal.jobs.models import Allocation, Attempt, Job
from portal.jobs.serializers.cores import CoreSearchSerializer, SlowingSerializer
from portal.jobs.states import AttemptState, JobState, StopCause, StopReason

_TEXT_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
_COUNT_MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def waited_s(job: Job) -> float:
    """Return the eligible waiting so far, the present stretch included."""
    open_stretch = (timezone.now() - job.waiting_since).total_seconds() if job.waiting_since else 0.0
    return round(job.waited_s + max(0.0, open_stretch), 3)


class JobSerializer(serializers.ModelSerializer):
    """A job in a list. A figure that is not known is null."""

    number = serializers.CharField(
        read_only=True, help_text="The job's number: 1044, or 1044_6 for task 6 of array 1044."
    )
    url = serializers.SerializerMethodField()
    tenant = serializers.CharField(source="tenant.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    state = serializers.ChoiceField(choices=JobState.choices, read_only=True)
    labels = serializers.SerializerMethodField()
    gpus = serializers.SerializerMethodField(
        help_text="The GPU counts that it accepts, for example [1, 2, 4]; [0] is a CPU job."
    )
    gpu_types = serializers.SerializerMethodField()
    array_job = serializers.IntegerField(source="array_id", read_only=True, allow_null=True)
    array_counts = serializers.SerializerMethodField(
        help_text="How many tasks of the array are in each state; empty for other jobs."
    )
    gpu_compute = serializers.SerializerMethodField(
        help_text="Of a shareable job: the share of one GPU's compute that it asks for; else null."
    )
    latency_class = serializers.ChoiceField(choices=Job.LatencyClass.choices, read_only=True)
    waited_s = serializers.SerializerMethodField(
        help_text="Seconds that it waited and could have run, over all attempts."
    )
    latency_ratio = serializers.SerializerMethodField(
        help_text="Its waiting time divided by its expected run time; null while that is not known."
    )
    nodes = serializers.SerializerMethodField(help_text="The names of the nodes where it runs now, by rank.")
    reason_figures = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = """
            id number url name tenant owner state labels category model gpus gpu_types cores_per_gpu cores_exactly cores
            memory_mib shareable gpu_compute gpu_memory_mib latency_class disk_gib time_limit_s grace_s priority
            array_job array_index array_size array_concurrency
            array_counts array_retries nodes submitted_at started_at ended_at waited_s latency_ratio reason
            reason_figures reason_at epoch overran_epoch exit_code end_detail
        """.split()
        read_only_fields = fields

    def get_url(self, job: Job) -> str:
        return f"/api/v1/jobs/{job.number}"

    @extend_schema_field(_TEXT_MAP)
    def get_labels(self, job: Job) -> dict[str, str]:
        return job.labels

    def get_gpus(self, job: Job) -> list[int]:
        return job.gpus

    @extend_schema_field({"type": "number", "nullable": True})
    def get_gpu_compute(self, job: Job) -> float | None:
        return None if job.gpu_compute is None else job.gpu_compute / 1000

    def get_gpu_types(self, job: Job) -> list[str]:
        return job.gpu_types

    @extend_schema_field(_COUNT_MAP)
    def get_array_counts(self, job: Job) -> dict[str, int]:
        return job.array_counts

    def get_waited_s(self, job: Job) -> float:
        return waited_s(job)

    @extend_schema_field({"type": "number", "nullable": True})
    def get_latency_ratio(self, job: Job) -> float | None:
        return round(waited_s(job) / job.age_s, 4) if job.age_s else None

    def get_nodes(self, job: Job) -> list[str]:
        attempts: list[Attempt] = getattr(job, "live_attempts", [])
        return [part.node.name for attempt in attempts for part in attempt.allocations.all()]

    @extend_schema_field({"type": "object", "additionalProperties": {}})
    def get_reason_figures(self, job: Job) -> dict[str, Any]:
        return job.reason_figures


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
    end_reason = serializers.CharField()


def _shared_part(part: Allocation) -> dict[str, Any]:
    held = next((each for each in part.gpu_allocations.all() if each.mode == Gpu.Mode.SHARED), None)
    return {
        "gpu_compute": None if held is None else held.compute / 1000,
        "gpu_memory_mib": None if held is None else held.memory_mib,
    }


def parts_shown(attempt: Attempt) -> list[dict[str, Any]]:
    return [
        {
            "node": part.node.name,
            "rank": part.rank,
            "gpus": [held.gpu.index for held in part.gpu_allocations.all()],
            "cores": part.core_ids,
            "memory_mib": part.memory_mib,
            **_shared_part(part),
            "exit_code": part.exit_code,
            "end_reason": part.end_reason,
        }
        for part in attempt.allocations.all()
    ]


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
    parts = serializers.SerializerMethodField()
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
            stop_cause stop_for stop_to_gpus stop_at restart_s exit_code end_detail
        """.split()
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_stop_for(self, attempt: Attempt) -> str | None:
        wanted = attempt.stop_for
        return wanted.number if wanted and wanted.tenant_id == attempt.job.tenant_id else None

    @extend_schema_field(PartSerializer(many=True))
    def get_parts(self, attempt: Attempt) -> list[dict[str, Any]]:
        return parts_shown(attempt)


class ProfileSerializer(serializers.ModelSerializer):
    """A measurement of the job's speed on one GPU while it waited; not one of its attempts."""

    number = serializers.IntegerField(
        source="epoch", help_text="The profile's number. Profiles are counted apart from attempts."
    )
    state = serializers.ChoiceField(choices=AttemptState.choices, read_only=True)
    gpu_type = serializers.CharField(source="profile_type.name", default=None, allow_null=True)
    parts = serializers.SerializerMethodField()
    speed = SpeedSerializer(read_only=True, allow_null=True, help_text="Null for a profile that recorded nothing.")

    class Meta:
        model = Attempt
        fields = """
            number state gpu_type parts speed time_limit_s planning_number created_at started_at ended_at
            exit_code end_detail
        """.split()
        read_only_fields = fields

    @extend_schema_field(PartSerializer(many=True))
    def get_parts(self, attempt: Attempt) -> list[dict[str, Any]]:
        return parts_shown(attempt)


class DependencySerializer(serializers.Serializer):
    job = serializers.IntegerField(source="on_id")
    kind = serializers.ChoiceField(choices=["ok", "any"])


class FileSerializer(serializers.Serializer):
    name = serializers.CharField()
    bytes = serializers.IntegerField()


class JobDetailSerializer(JobSerializer):
    """One job: also what it runs, its attempts, and what it waits for."""

    command = serializers.SerializerMethodField()
    working_directory = serializers.SerializerMethodField()
    environment = serializers.SerializerMethodField()
    software = serializers.SerializerMethodField(help_text="Beside its node's own; empty: none.")
    files = serializers.SerializerMethodField()
    depends_on = DependencySerializer(source="dependencies", many=True, read_only=True)
    attempts = AttemptSerializer(source="attempt_rows", many=True, read_only=True)
    profiles = ProfileSerializer(source="profile_rows", many=True, read_only=True)
    learning_rate = serializers.SerializerMethodField()
    progress = ProgressSerializer(read_only=True, allow_null=True, help_text="Null for a job that records nothing.")

    class Meta(JobSerializer.Meta):
        own_fields = """
            command working_directory environment software files depends_on pipelined parameters heavy_between_iterations
            instrumented batch_per_gpu samples learning_rate expected_duration_s checkpointable restartable
            retries max_requeues failures requeues preemptions held_by cancel_requested_at age_s age_source
            progress attempts profiles
        """.split()
        fields = [*JobSerializer.Meta.fields, *own_fields]
        read_only_fields = fields

    def get_command(self, job: Job) -> str:
        return payload_of(job).command

    def get_working_directory(self, job: Job) -> str:
        return payload_of(job).working_directory

    @extend_schema_field(_TEXT_MAP)
    def get_environment(self, job: Job) -> dict[str, str]:
        return payload_of(job).environment

    @extend_schema_field(_TEXT_MAP)
    def get_software(self, job: Job) -> dict[str, str]:
        return payload_of(job).software

    @extend_schema_field(FileSerializer(many=True))
    def get_files(self, job: Job) -> list[dict[str, Any]]:
        return [
            {"name": name, "bytes": len(base64.b64decode(content))} for name, content in payload_of(job).files.items()
        ]

    @extend_schema_field({"type": "object", "additionalProperties": {}, "nullable": True})
    def get_learning_rate(self, job: Job) -> dict[str, Any] | None:
        return job.learning_rate


def payload_of(job: Job) -> Any:
    """Return a job's payload; an array's tasks use their parent's."""
    return job.array.payload if job.array_id else job.payload
