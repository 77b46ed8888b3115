"""Jobs in the REST API. Units stand in the names; times are ISO-8601 in UTC."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.foundation.api.rows import RowSerializer
from portal.work.jobs.declaration.table import PLAIN, TABLE
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.serializers.attempts import AttemptSerializer, ProfileSerializer, ProgressSerializer
from portal.work.jobs.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
_ANY_MAP = {"type": "object", "additionalProperties": {}}
_COUNT_MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def as_it_is(schema: Mapping[str, Any], **options: Any) -> serializers.Field:
    """Return a field that shows a value as it is stored."""
    kind = type("AsItIs", (serializers.ReadOnlyField,), {})
    return extend_schema_field(schema)(kind)(**options)


def waited_s(job: Job) -> float:
    """Return the eligible waiting so far, the present stretch included."""
    open_stretch = (timezone.now() - job.waiting_since).total_seconds() if job.waiting_since else 0.0
    return round(job.waited_s + max(0.0, open_stretch), 3)


class JobSerializer(RowSerializer, serializers.ModelSerializer):
    """A job in a list. A figure that is not known is null."""

    number = serializers.CharField(
        read_only=True, help_text="The job's number: 1044, or 1044_6 for task 6 of array 1044."
    )
    url = serializers.SerializerMethodField()
    tenant = serializers.CharField(source="tenant.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    state = serializers.ChoiceField(choices=JobState.choices, read_only=True)
    labels = as_it_is(_TEXT_MAP)
    gpus = as_it_is(
        {"type": "array", "items": {"type": "integer"}},
        help_text="The GPU counts that it accepts, for example [1, 2, 4]; [0] is a CPU job.",
    )
    gpu_types = as_it_is({"type": "array", "items": {"type": "string"}})
    array_job = serializers.IntegerField(source="array_id", read_only=True, allow_null=True)
    array_counts = as_it_is(
        _COUNT_MAP, help_text="How many tasks of the array are in each state; empty for other jobs."
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
    reason_figures = as_it_is(_ANY_MAP)

    class Meta:
        model = Job
        told = """
            id number url tenant owner state array_job array_index array_size array_concurrency
            array_counts array_retries nodes submitted_at started_at ended_at waited_s latency_ratio reason
            reason_figures reason_at epoch overran_epoch exit_code signal end_detail
        """.split()
        fields = [*told, *(each.name for each in TABLE if each.listed)]
        read_only_fields = fields

    def get_url(self, job: Job) -> str:
        return f"/api/v1/jobs/{job.number}"

    @extend_schema_field({"type": "number", "nullable": True})
    def get_gpu_compute(self, job: Job) -> float | None:
        return None if job.gpu_compute is None else job.gpu_compute / 1000

    def get_waited_s(self, job: Job) -> float:
        return waited_s(job)

    @extend_schema_field({"type": "number", "nullable": True})
    def get_latency_ratio(self, job: Job) -> float | None:
        return round(waited_s(job) / job.age_s, 4) if job.age_s else None

    def get_nodes(self, job: Job) -> list[str]:
        attempts: list[Attempt] = getattr(job, "live_attempts", [])
        return [part.node.name for attempt in attempts for part in attempt.allocations.all()]


class DependencySerializer(serializers.Serializer):
    job = serializers.IntegerField(source="on_id")
    kind = serializers.ChoiceField(choices=["ok", "any", "notok", "single"])


class FileSerializer(serializers.Serializer):
    name = serializers.CharField()
    bytes = serializers.IntegerField()


class BeganSerializer(serializers.Serializer):
    """An artefact of an earlier job that a job begins with."""

    job = serializers.CharField(source="job.number", allow_null=True, default=None, help_text="Null: that job is gone.")
    path = serializers.CharField(help_text="With a / at its end: a folder, with all that is kept in it.")
    kept = serializers.BooleanField(source="is_kept", help_text="False: it was removed, or is not there yet.")

    def get_fields(self) -> dict[str, Any]:
        own = serializers.CharField(source="target", help_text="Where it lies in the job's own directory.")
        return {**super().get_fields(), "as": own}


class ContinuedSerializer(serializers.Serializer):
    """The jobs that began from artefacts of a job."""

    count = serializers.IntegerField()
    jobs = serializers.ListField(child=serializers.CharField(), help_text="The newest 20, by number.")


class OfTemplateSerializer(serializers.Serializer):
    """Which job template a job was made of, and with which values; the template may be gone since."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    tenant = serializers.CharField(allow_null=True, help_text="Whose template it was; null: the operators'.")
    values = serializers.DictField()


class CodeSerializer(serializers.Serializer):
    """A repository, or a directory on the nodes (`path`)."""

    git = serializers.CharField(allow_null=True)
    ref = serializers.CharField(allow_null=True)
    secret = serializers.CharField(allow_null=True, help_text="The name of the one with which it is fetched.")
    submodules = serializers.BooleanField(allow_null=True)
    commit = serializers.CharField(allow_null=True, help_text="What its first attempt found; later ones run the same.")
    path = serializers.CharField(allow_null=True)


class JobDetailSerializer(JobSerializer):
    """One job: also what it runs, its attempts, and what it waits for."""

    command = serializers.CharField(source="brought.command", read_only=True)
    working_directory = serializers.CharField(source="brought.working_directory", read_only=True)
    environment = as_it_is(_TEXT_MAP, source="brought.environment")
    secrets = serializers.SerializerMethodField(help_text="Variables, and the names of the secrets that they get.")
    code = serializers.SerializerMethodField(
        help_text="Where its code comes from besides its files; null: nowhere else."
    )
    software = as_it_is(_TEXT_MAP, source="brought.software", help_text="Beside its node's own; empty: none.")
    files = serializers.SerializerMethodField()
    upload = serializers.SerializerMethodField(help_text="The digest of the upload that it brings; null: none.")
    depends_on = DependencySerializer(source="dependency_rows", many=True, read_only=True)
    attempts = AttemptSerializer(source="attempt_rows", many=True, read_only=True)
    profiles = ProfileSerializer(source="profile_rows", many=True, read_only=True)
    learning_rate = as_it_is({**_ANY_MAP, "nullable": True})
    inputs = BeganSerializer(source="began_rows", many=True, read_only=True)
    continued_by = ContinuedSerializer(source="continued_rows", read_only=True)
    template = serializers.SerializerMethodField(help_text="The job template that it was made of; null: none.")
    progress = ProgressSerializer(read_only=True, allow_null=True, help_text="Null for a job that records nothing.")

    class Meta(JobSerializer.Meta):
        told = """
            command working_directory environment secrets code software files upload depends_on learning_rate
            failures requeues preemptions held_by cancel_requested_at age_s age_source
            progress attempts profiles inputs continued_by template
        """.split()
        fields = [*JobSerializer.Meta.fields, *told, *(each.name for each in PLAIN if not each.listed)]
        read_only_fields = fields

    @extend_schema_field(_TEXT_MAP)
    def get_secrets(self, job: Job) -> dict[str, str]:
        return job.brought.description.get("secrets") or {}

    @extend_schema_field(CodeSerializer(allow_null=True))
    def get_code(self, job: Job) -> dict[str, Any] | None:
        found = job.brought.code
        return {name: found.get(name) for name in CodeSerializer().fields} if found else None

    @extend_schema_field(FileSerializer(many=True))
    def get_files(self, job: Job) -> list[dict[str, Any]]:
        return [{"name": name, "bytes": len(base64.b64decode(content))} for name, content in job.brought.files.items()]

    @extend_schema_field(OfTemplateSerializer(allow_null=True))
    def get_template(self, job: Job) -> dict[str, Any] | None:
        found = job.brought.template
        return {name: found.get(name) for name in ("name", "version", "tenant", "values")} if found else None

    def get_upload(self, job: Job) -> str | None:
        return job.brought.description.get("upload")
