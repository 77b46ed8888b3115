import logging

import django.db.models.fields.json
import django.db.models.functions.comparison
import portal.work.jobs.keys
from django.conf import settings
from django.db import DatabaseError, migrations, models, transaction

from portal.foundation.events.first_migration import FirstMigration

log = logging.getLogger(__name__)


def trigrams_make(apps, schema_editor):
    """Make an index for the search of jobs on Postgres. An account that may not make the extension goes without."""
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            schema_editor.execute("CREATE INDEX job_text_trigrams ON jobs_jobtext USING gin (text gin_trgm_ops)")
    except DatabaseError as error:
        why = str(error).splitlines()[0]
        log.warning("The search goes without a trigram index (%s): its answers are the same, but take longer.", why)


def trigrams_drop(apps, schema_editor):
    """Drop the index. The extension stays: it may serve others."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX IF EXISTS job_text_trigrams")


class Migration(FirstMigration):
    dependencies = [("cluster", "0001_initial"), ("tenants", "0001_initial"), ("uploads", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ClockMark",
            fields=[
                (
                    "boot",
                    models.CharField(
                        help_text="The kernel's name of this boot, and the machine's.",
                        max_length=128,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("booted_at", models.DateTimeField()),
                (
                    "looked_at",
                    models.DateTimeField(help_text="When it last looked for leases that are over.", null=True),
                ),
                (
                    "returned_at",
                    models.DateTimeField(
                        help_text="When it last did so after no machine had for a while: nodes could not report meanwhile.",
                        null=True,
                    ),
                ),
                (
                    "leapt_at",
                    models.DateTimeField(
                        help_text="When the clock last went ahead by a day or more: deleting waits for a day.",
                        null=True,
                    ),
                ),
                ("leapt_s", models.FloatField(help_text="By how many seconds it went ahead then.", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=128)),
                ("labels", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("PENDING", "Waiting"),
                            ("HELD", "Held"),
                            ("STARTING", "Starting"),
                            ("RUNNING", "Running"),
                            ("PREEMPTED", "Preempted"),
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("TIMEOUT", "Timed out"),
                            ("CANCELLED", "Cancelled"),
                            ("OUT_OF_MEMORY", "Out of memory"),
                            ("NODE_FAIL", "Node failed"),
                        ],
                        default="PENDING",
                        max_length=16,
                    ),
                ),
                (
                    "category",
                    models.CharField(
                        choices=[
                            ("cv", "cv"),
                            ("nlp", "nlp"),
                            ("speech", "speech"),
                            ("cpu", "cpu"),
                            ("other", "other"),
                        ],
                        max_length=8,
                        null=True,
                    ),
                ),
                ("pipelined", models.BooleanField(null=True)),
                ("model", models.CharField(blank=True, max_length=128)),
                ("parameters", models.PositiveBigIntegerField(null=True)),
                ("heavy_between_iterations", models.BooleanField(null=True)),
                (
                    "gpus",
                    models.JSONField(
                        help_text="The numbers of GPUs it can run on, smallest first, such as [1, 2, 4]. A CPU job has [0]."
                    ),
                ),
                (
                    "gpu_types",
                    models.JSONField(default=list, help_text="Names of the GPU types it may run on. Empty: any type."),
                ),
                ("cores_per_gpu", models.PositiveIntegerField(null=True)),
                (
                    "cores",
                    models.PositiveIntegerField(
                        help_text="Only for CPU jobs: the number of cores on its node.", null=True
                    ),
                ),
                ("memory_mib", models.PositiveBigIntegerField(null=True)),
                ("time_limit_s", models.PositiveIntegerField(null=True)),
                ("batch_per_gpu", models.PositiveIntegerField(null=True)),
                ("samples", models.PositiveBigIntegerField(null=True)),
                (
                    "learning_rate",
                    models.JSONField(
                        help_text='A rule such as {"at": 4, "value": 4e-4, "rule": "linear"}, or one learning rate for each size.',
                        null=True,
                    ),
                ),
                ("expected_duration_s", models.FloatField(null=True)),
                ("checkpointable", models.BooleanField(default=False)),
                ("restartable", models.BooleanField(default=False)),
                ("retries", models.PositiveSmallIntegerField(default=0)),
                ("max_requeues", models.PositiveSmallIntegerField(default=5)),
                ("priority", models.SmallIntegerField(default=0)),
                ("array_index", models.PositiveIntegerField(null=True)),
                ("array_size", models.PositiveIntegerField(null=True)),
                ("array_concurrency", models.PositiveIntegerField(null=True)),
                (
                    "array_made",
                    models.PositiveIntegerField(
                        default=0, help_text="How many of the array's tasks have a row of their own so far."
                    ),
                ),
                (
                    "array_counts",
                    models.JSONField(
                        default=dict,
                        help_text="How many of the array's tasks are in each state. Lists show this in the array's one row.",
                    ),
                ),
                ("submitted_at", models.DateTimeField()),
                (
                    "started_at",
                    models.DateTimeField(
                        help_text="When it first started. Its expected run time (age_s) does not change after that.",
                        null=True,
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "waited_s",
                    models.FloatField(
                        default=0,
                        help_text="Seconds that it waited while it could have started. The time since waiting_since is not in it yet.",
                    ),
                ),
                (
                    "waiting_since",
                    models.DateTimeField(
                        help_text="Since when it waits and could start. Null while it runs, is held or waits for another job.",
                        null=True,
                    ),
                ),
                (
                    "age_s",
                    models.FloatField(
                        help_text="Expected run time in seconds. The latency ratio divides the waiting time by it.",
                        null=True,
                    ),
                ),
                ("age_source", models.CharField(blank=True, max_length=32)),
                ("epoch", models.PositiveIntegerField(default=0, help_text="The number of its last attempt.")),
                ("failures", models.PositiveIntegerField(default=0)),
                ("requeues", models.PositiveIntegerField(default=0)),
                ("preemptions", models.PositiveIntegerField(default=0)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("held_by", models.CharField(blank=True, max_length=150)),
                (
                    "checkpoint_domain",
                    models.CharField(
                        blank=True, help_text="The storage domain whose nodes can read its checkpoint.", max_length=100
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True, help_text="Why it waits: one of a fixed list of words.", max_length=32
                    ),
                ),
                ("reason_figures", models.JSONField(default=dict)),
                ("reason_at", models.DateTimeField(null=True)),
                ("in_window", models.BooleanField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("end_detail", models.CharField(blank=True, max_length=300)),
                (
                    "array",
                    models.ForeignKey(
                        db_index=False, null=True, on_delete=models.CASCADE, related_name="tasks", to="jobs.job"
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False, on_delete=models.PROTECT, related_name="jobs", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=models.PROTECT, related_name="jobs", to="tenants.tenant"
                    ),
                ),
                (
                    "attained_gpu_s",
                    models.FloatField(default=0, help_text="GPUs times seconds, added up over its ended attempts."),
                ),
                (
                    "called_back_epoch",
                    models.PositiveIntegerField(
                        help_text="The attempt that was stopped because it had to give back borrowed GPUs.", null=True
                    ),
                ),
                ("ran_s", models.FloatField(default=0, help_text="Seconds that its ended attempts ran, added up.")),
                (
                    "restart_s",
                    models.FloatField(help_text="Seconds that a stop and the next start took, on average.", null=True),
                ),
                (
                    "instrumented",
                    models.BooleanField(
                        default=False, help_text="Its program records its iterations, so Berth may profile it."
                    ),
                ),
                (
                    "key",
                    models.CharField(
                        default=portal.work.jobs.keys.key_new,
                        editable=False,
                        help_text="What nodes call it. No other ever gets the same key.",
                        max_length=32,
                    ),
                ),
                (
                    "gpus_least",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Cast(
                            django.db.models.fields.json.KeyTextTransform(0, "gpus"), models.IntegerField()
                        ),
                        output_field=models.IntegerField(),
                    ),
                ),
                ("disk_gib", models.FloatField(null=True)),
                (
                    "array_retries",
                    models.PositiveIntegerField(default=0, help_text="How many failed tasks shall be tried again."),
                ),
                (
                    "retry_asked_at",
                    models.DateTimeField(
                        help_text="When a retry of this failed task was asked for. The task waits again when its array has room.",
                        null=True,
                    ),
                ),
                (
                    "cores_exactly",
                    models.BooleanField(
                        default=False,
                        help_text="It gets exactly cores_per_gpu cores for each GPU: never fewer, and core tuning leaves it alone.",
                    ),
                ),
                (
                    "grace_s",
                    models.PositiveIntegerField(
                        help_text="Seconds that it has between SIGTERM and SIGKILL when it is stopped. Null: 30 s.",
                        null=True,
                    ),
                ),
                (
                    "overran_epoch",
                    models.PositiveIntegerField(
                        help_text="The attempt that did not end within its grace time when it was stopped.", null=True
                    ),
                ),
                (
                    "software_need",
                    models.CharField(
                        blank=True,
                        help_text="The software that a node must offer to run it. Empty: none.",
                        max_length=80,
                    ),
                ),
                (
                    "gpu_compute",
                    models.PositiveSmallIntegerField(
                        help_text="For a shareable job: how much of the GPU's computing it needs, in thousandths.",
                        null=True,
                    ),
                ),
                (
                    "gpu_memory_mib",
                    models.PositiveIntegerField(
                        help_text="For a shareable job: how much of the GPU's memory it needs, in MiB.", null=True
                    ),
                ),
                (
                    "gpu_memory_whole",
                    models.BooleanField(
                        default=False,
                        help_text="It once ended because it had less GPU memory than it asked for. From now on it gets all it asks for.",
                    ),
                ),
                (
                    "latency_class",
                    models.CharField(
                        choices=[("batch", "batch"), ("latency", "latency")],
                        default="batch",
                        help_text="latency means that somebody waits for its answers: it never gets less than it asks for.",
                        max_length=8,
                    ),
                ),
                (
                    "shareable",
                    models.BooleanField(
                        default=False,
                        help_text="It takes a part of one GPU, and other jobs may use the rest of that GPU meanwhile.",
                    ),
                ),
                (
                    "log_matches",
                    models.JSONField(
                        default=list,
                        help_text="Texts that, in a line of its log, are told: `portal.work.jobs.fields.watching`. [] mostly.",
                    ),
                ),
                (
                    "idle_timeout_s",
                    models.PositiveIntegerField(
                        help_text="Seconds without use after which it is ended. Null: never.",
                        null=True,
                    ),
                ),
                (
                    "signal",
                    models.PositiveSmallIntegerField(
                        help_text="The signal that ended its command, which then has no exit code.", null=True
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["state", "-id", "array", "tenant", "reason"], name="job_by_state"),
                    models.Index(
                        condition=models.Q(("array", None)),
                        fields=["tenant", "state", "-id", "reason", "array", "waiting_since", "waited_s"],
                        name="job_top_by_tenant",
                    ),
                    models.Index(
                        condition=models.Q(("array", None)),
                        fields=["owner", "state", "-id", "reason", "tenant", "array"],
                        name="job_top_by_owner",
                    ),
                    models.Index(
                        condition=models.Q(("array", None)),
                        fields=["tenant", "state", "reason", "array"],
                        name="job_top_counts",
                    ),
                    models.Index(
                        condition=models.Q(("array", None)),
                        fields=["-submitted_at", "-id", "tenant", "array", "state", "owner", "reason"],
                        name="job_top_by_submission",
                    ),
                    models.Index(fields=["tenant", "-id", "array", "owner", "category"], name="job_by_tenant"),
                    models.Index(
                        condition=models.Q(("array", None), ("started_at__isnull", False)),
                        fields=["-started_at", "-id", "tenant", "array", "state", "owner", "reason"],
                        name="job_top_by_start",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["-ended_at", "-id", "array", "tenant", "state", "owner", "reason"],
                        name="job_by_end",
                    ),
                    models.Index(
                        condition=models.Q(("restart_s__isnull", False)), fields=["-id"], name="job_restarted"
                    ),
                    models.Index(
                        condition=models.Q(("array__isnull", False)),
                        fields=["array", "state"],
                        name="job_tasks_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("retry_asked_at__isnull", False)),
                        fields=["array", "array_index"],
                        name="job_tasks_to_retry",
                    ),
                    models.Index(
                        condition=models.Q(("array_size__isnull", False)),
                        fields=["tenant"],
                        name="job_arrays_by_tenant",
                    ),
                    models.Index(
                        condition=models.Q(("array_size", None), ("cancel_requested_at", None), ("ended_at", None)),
                        fields=["state", "reason", "gpus_least", "waiting_since", "waited_s", "age_s"],
                        name="job_unfinished_counts",
                    ),
                    models.Index(
                        condition=models.Q(("array_size", None), ("ended_at", None), ("time_limit_s__isnull", False)),
                        fields=["id", "time_limit_s"],
                        name="job_unfinished_limits",
                    ),
                    models.Index(
                        condition=models.Q(("checkpointable", True), ("ended_at", None), ("ran_s__gt", 0)),
                        fields=["id", "ran_s"],
                        name="job_unfinished_ran",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("array__isnull", False)),
                        fields=("array", "array_index"),
                        name="array_task_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__range", (-100, 100))), name="job_priority_range"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("epoch", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("STARTING", "Starting"),
                            ("RUNNING", "Running"),
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("TIMEOUT", "Timed out"),
                            ("CANCELLED", "Cancelled"),
                            ("OUT_OF_MEMORY", "Out of memory"),
                            ("NODE_FAIL", "Node failed"),
                            ("PREEMPTED", "Preempted"),
                        ],
                        default="STARTING",
                        max_length=16,
                    ),
                ),
                ("planning_number", models.PositiveBigIntegerField(null=True)),
                ("gpus", models.PositiveIntegerField()),
                ("cores", models.PositiveIntegerField()),
                ("rendezvous_port", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "lease_s",
                    models.PositiveIntegerField(
                        help_text="Seconds of silence of its node after which it ends. Null: never, because it may not run again.",
                        null=True,
                    ),
                ),
                (
                    "stop_reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("cancel", "cancelled"),
                            ("preempt", "preempted"),
                            ("requeue", "requeued by hand"),
                            ("partner", "another part of it ended"),
                            ("limit", "a profile's time is over"),
                            ("unwell", "its node or GPU failed"),
                            ("idle", "nobody used it"),
                        ],
                        max_length=16,
                    ),
                ),
                ("stop_at", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("end_detail", models.CharField(blank=True, max_length=300)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="attempts", to="jobs.job")),
                (
                    "restart_s",
                    models.FloatField(
                        help_text="Seconds from the order that stopped the attempt before until this one ran.",
                        null=True,
                    ),
                ),
                (
                    "stop_cause",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("call-back", "called back"),
                            ("resize", "resized"),
                            ("move", "moved"),
                            ("preempt", "preempted"),
                        ],
                        help_text="Why a planning stopped it.",
                        max_length=16,
                    ),
                ),
                ("stop_for", models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="+", to="jobs.job")),
                (
                    "stop_to_gpus",
                    models.PositiveIntegerField(
                        help_text="The number of GPUs that it should go on with. 0: it waits.", null=True
                    ),
                ),
                (
                    "kind",
                    models.CharField(choices=[("run", "run"), ("profile", "profile")], default="run", max_length=8),
                ),
                (
                    "profile_of",
                    models.CharField(
                        blank=True, help_text="For a profile: the signature that it measures.", max_length=200
                    ),
                ),
                (
                    "profile_type",
                    models.ForeignKey(
                        help_text="For a profile: the GPU type that it measures on.",
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="+",
                        to="cluster.gputype",
                    ),
                ),
                (
                    "time_limit_s",
                    models.PositiveIntegerField(
                        help_text="For a profile: its time limit. A run has the limit of its job.", null=True
                    ),
                ),
                (
                    "key",
                    models.CharField(
                        default=portal.work.jobs.keys.key_new,
                        editable=False,
                        help_text="What nodes call it. No other ever gets the same key.",
                        max_length=32,
                    ),
                ),
                (
                    "cores_wanted",
                    models.PositiveIntegerField(
                        help_text="The cores for each GPU (for a CPU job: in all) that it was placed with. Null: an old row.",
                        null=True,
                    ),
                ),
                (
                    "gpu_compute",
                    models.PositiveSmallIntegerField(
                        help_text="The part of its one GPU that it holds, in thousandths. Null: it has its GPUs for itself.",
                        null=True,
                    ),
                ),
                (
                    "commit",
                    models.CharField(
                        blank=True, help_text="The commit of its code, as its nodes fetched it.", max_length=64
                    ),
                ),
                (
                    "gpu_busy",
                    models.FloatField(
                        help_text="The part of what it held of GPUs, in time, that computed: 0 to 1. Null: not measured, or not yet.",
                        null=True,
                    ),
                ),
                (
                    "signal",
                    models.PositiveSmallIntegerField(
                        help_text="The signal that ended its command, which then has no exit code.", null=True
                    ),
                ),
            ],
            options={
                "ordering": ["job", "-epoch"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("kind", "profile")), fields=["created_at"], name="attempt_profiles_by_time"
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="attempt_by_end"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "kind", "epoch"), name="attempt_epoch_once"),
                    models.UniqueConstraint(fields=("key",), name="attempt_key_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None), ("kind", "run")),
                        fields=("job",),
                        name="one_live_attempt_a_job",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None), ("kind", "profile")),
                        fields=("profile_of", "profile_type"),
                        name="one_live_profile_a_signature_and_type",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "run"), ("profile_of", ""), ("time_limit_s", None)),
                            models.Q(
                                ("kind", "profile"),
                                ("time_limit_s__isnull", False),
                                models.Q(("profile_of", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="attempt_profile_says_of_what",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at", None), ("state__in", ["STARTING", "RUNNING"])),
                            models.Q(
                                ("ended_at__isnull", False),
                                models.Q(("state__in", ["STARTING", "RUNNING"]), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="attempt_ended_has_final_state",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rank", models.PositiveSmallIntegerField()),
                (
                    "core_ids",
                    models.JSONField(
                        help_text="The cores that it holds. Those that it was told to give back count until its node says so."
                    ),
                ),
                ("memory_mib", models.PositiveBigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("wanted", "wanted"),
                            ("prepared", "prepared"),
                            ("running", "running"),
                            ("ended", "ended"),
                        ],
                        default="wanted",
                        max_length=16,
                    ),
                ),
                (
                    "sequence",
                    models.PositiveBigIntegerField(
                        default=0, help_text="The number of the last report that was accepted."
                    ),
                ),
                ("pid", models.PositiveIntegerField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("end_reason", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                ("node", models.ForeignKey(on_delete=models.PROTECT, related_name="allocations", to="cluster.node")),
                ("attempt", models.ForeignKey(on_delete=models.CASCADE, related_name="allocations", to="jobs.attempt")),
                (
                    "missed_at",
                    models.DateTimeField(
                        help_text="When its node first sent a report in which it was missing.", null=True
                    ),
                ),
                (
                    "core_ids_ordered",
                    models.JSONField(
                        help_text="The cores that it should have by the last order. Null: the same as core_ids.",
                        null=True,
                    ),
                ),
                (
                    "cores_acknowledged",
                    models.PositiveBigIntegerField(
                        help_text="The number of the order that its node follows. Null: its agent takes no such orders.",
                        null=True,
                    ),
                ),
                (
                    "cores_sequence",
                    models.PositiveBigIntegerField(
                        default=0, help_text="The number of the last order about its cores. 0: there was none."
                    ),
                ),
                (
                    "share",
                    models.FloatField(
                        default=1.0,
                        help_text="The part of its memory bandwidth or CPU time that the last order left it. 1: all.",
                    ),
                ),
                (
                    "signal",
                    models.PositiveSmallIntegerField(
                        help_text="The signal that ended its command, which then has no exit code.", null=True
                    ),
                ),
            ],
            options={
                "ordering": ["attempt", "rank"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("released_at", None)), fields=["node"], name="allocation_live_by_node"
                    ),
                    models.Index(fields=["released_at"], name="allocation_by_release"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "rank"), name="allocation_rank_once"),
                    models.UniqueConstraint(fields=("attempt", "node"), name="allocation_node_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CoreSearch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.JSONField(
                        help_text="What the scheduler remembers of the search: a scheduler.estimator.tuner.Tuning."
                    ),
                ),
                ("step_s", models.FloatField()),
                (
                    "signal",
                    models.CharField(
                        blank=True,
                        choices=[("utilisation", "GPU utilisation"), ("throughput", "throughput")],
                        help_text="What the search goes by. Empty before the first step.",
                        max_length=12,
                    ),
                ),
                ("since", models.DateTimeField(null=True)),
                ("marked_at", models.DateTimeField(null=True)),
                ("marked_samples", models.FloatField(null=True)),
                ("marked_seconds", models.FloatField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                (
                    "ordered_at",
                    models.DateTimeField(
                        help_text="When the order was given that the node has not confirmed yet.", null=True
                    ),
                ),
                ("begun_at", models.DateTimeField()),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("found", "found"),
                            ("limited", "ended by what could be had"),
                            ("off", "switched off"),
                            ("unanswered", "its node did not answer"),
                            ("ended", "the attempt ended before"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "attempt",
                    models.OneToOneField(on_delete=models.CASCADE, related_name="core_search", to="jobs.attempt"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("done_at", None)), fields=["due_at"], name="core_search_open")
                ]
            },
        ),
        migrations.CreateModel(
            name="CoreStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveSmallIntegerField()),
                ("cores_per_gpu", models.PositiveIntegerField()),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                (
                    "utilisation",
                    models.FloatField(
                        help_text="The mean utilisation of its GPUs, from 0 to 1. Null: not measured.", null=True
                    ),
                ),
                (
                    "samples_per_s",
                    models.FloatField(help_text="The speed that the job reported. Null: it reports none.", null=True),
                ),
                ("search", models.ForeignKey(on_delete=models.CASCADE, related_name="steps", to="jobs.coresearch")),
            ],
            options={
                "ordering": ["search", "number"],
                "constraints": [models.UniqueConstraint(fields=("search", "number"), name="core_step_once")],
            },
        ),
        migrations.CreateModel(
            name="GpuAllocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("mode", models.CharField(default="exclusive", max_length=16)),
                ("created_at", models.DateTimeField()),
                ("released_at", models.DateTimeField(null=True)),
                (
                    "allocation",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="gpu_allocations", to="jobs.allocation"),
                ),
                ("gpu", models.ForeignKey(on_delete=models.PROTECT, related_name="allocations", to="cluster.gpu")),
                (
                    "compute",
                    models.PositiveSmallIntegerField(
                        default=1000, help_text="The part of the GPU's computing, in thousandths."
                    ),
                ),
                (
                    "memory_mib",
                    models.PositiveIntegerField(
                        help_text="The part of the GPU's memory, in MiB. Null: all of it.", null=True
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["released_at"], name="gpu_allocation_by_release")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("mode", "exclusive"), ("released_at", None)),
                        fields=("gpu",),
                        name="one_exclusive_allocation_a_gpu",
                    ),
                    models.UniqueConstraint(fields=("allocation", "gpu"), name="gpu_once_an_allocation"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("compute", 1000), ("memory_mib", None), ("mode", "exclusive")),
                            models.Q(
                                ("compute__range", (1, 1000)),
                                ("memory_mib__gte", 1),
                                ("memory_mib__isnull", False),
                                ("mode", "shared"),
                            ),
                            _connector="OR",
                        ),
                        name="gpu_allocation_part_of_a_shared_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdleWatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("frame", models.BigIntegerField(help_text="The last row of telemetry that was looked at.")),
                (
                    "parts",
                    models.JSONField(
                        default=dict, help_text="Seconds for which each node saw it idle, by the node's id."
                    ),
                ),
                (
                    "idle_s",
                    models.FloatField(default=0, help_text="The least of them: so long it was idle everywhere."),
                ),
                (
                    "warned_idle_s",
                    models.FloatField(help_text="`idle_s` when people were warned. Null: they were not.", null=True),
                ),
                ("uses", models.PositiveBigIntegerField(default=0)),
                ("used_at", models.DateTimeField(help_text="When it was last used, or began.")),
                (
                    "used_by",
                    models.CharField(blank=True, help_text="What that was. Blank: it began then.", max_length=16),
                ),
                (
                    "attempt",
                    models.OneToOneField(on_delete=models.CASCADE, related_name="idle_watch", to="jobs.attempt"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobPayload",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="payload",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("command", models.TextField()),
                (
                    "files",
                    models.JSONField(
                        default=dict,
                        help_text="File names, relative to the job's folder, and their contents in base64.",
                    ),
                ),
                ("working_directory", models.CharField(blank=True, max_length=1024)),
                ("environment", models.JSONField(default=dict)),
                (
                    "description",
                    models.JSONField(
                        help_text="The description as it was submitted, so that the job can be submitted again."
                    ),
                ),
                (
                    "software",
                    models.JSONField(
                        default=dict,
                        help_text="One of environment, path and requirements. {}: it uses what is installed on the node.",
                    ),
                ),
                (
                    "template",
                    models.JSONField(
                        default=dict,
                        help_text="The job template that it was made of: id, name, version, tenant and values. {}: none.",
                    ),
                ),
                (
                    "upload",
                    models.ForeignKey(
                        help_text="The larger set of files that the job brings; null: none, or removed long after its end.",
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="payloads",
                        to="uploads.upload",
                    ),
                ),
                (
                    "code",
                    models.JSONField(
                        default=dict,
                        help_text="Where its code comes from: git, ref, secret and the commit that was found first; or path. {}: its files.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobText",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE, primary_key=True, related_name="text", serialize=False, to="jobs.job"
                    ),
                ),
                (
                    "text",
                    models.TextField(
                        help_text="What a search looks through, in lower case: the name, then one line name=value for each label."
                    ),
                ),
                ("category", models.CharField(max_length=8, null=True)),
                ("submitted_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["submitted_at", "job"], name="job_text_by_time"),
                    models.Index(fields=["category", "job"], name="job_text_by_category"),
                ]
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=255)),
                ("body_digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("user", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="jobs.job")),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_once")]},
        ),
        migrations.CreateModel(
            name="CoreTuning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("category", models.CharField(blank=True, max_length=16)),
                ("cores_per_gpu", models.PositiveIntegerField()),
                (
                    "steps",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="How many numbers of cores were measured. 0: somebody set the number by hand.",
                    ),
                ),
                ("tuned_at", models.DateTimeField(db_index=True)),
                ("job", models.OneToOneField(on_delete=models.CASCADE, related_name="core_tuning", to="jobs.job")),
                ("owner", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "indexes": [models.Index(fields=["owner", "category", "cores_per_gpu"], name="core_tuning_of_owner")]
            },
        ),
        migrations.CreateModel(
            name="JobApart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("beside", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="jobs.job")),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="kept_apart", to="jobs.job")),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("job", "beside"), name="job_apart_once")]},
        ),
        migrations.CreateModel(
            name="JobDependency",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ok", "completed"),
                            ("any", "ended"),
                            ("notok", "failed"),
                            ("single", "ended, as it has the same name"),
                        ],
                        default="ok",
                        max_length=6,
                    ),
                ),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="dependencies", to="jobs.job")),
                ("on", models.ForeignKey(on_delete=models.CASCADE, related_name="dependants", to="jobs.job")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("job", "on"), name="dependency_once"),
                    models.CheckConstraint(
                        condition=models.Q(("job", models.F("on")), _negated=True), name="dependency_not_on_itself"
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("kind", models.CharField(max_length=32)),
                ("epoch", models.PositiveIntegerField(null=True)),
                ("text", models.CharField(max_length=300)),
                ("actor_name", models.CharField(blank=True, max_length=150)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="events", to="jobs.job")),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["job", "-id"], name="jobs_jobeve_job_id_33b160_idx")],
            },
        ),
        migrations.CreateModel(
            name="JobInput",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=1025)),
                ("target", models.CharField(help_text="Where it lies in the job's own directory.", max_length=1024)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="inputs", to="jobs.job")),
                (
                    "source",
                    models.ForeignKey(
                        help_text="Null: that job was deleted.",
                        null=True,
                        on_delete=models.SET_NULL,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={"ordering": ["pk"]},
        ),
        migrations.CreateModel(
            name="JobLabel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                (
                    "pair",
                    models.CharField(
                        help_text="name=value, in one column, so that the database knows how rare it is.",
                        max_length=319,
                    ),
                ),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="jobs.job")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name", "job"], name="job_label_by_name"),
                    models.Index(fields=["pair", "job"], name="job_label_by_pair"),
                ]
            },
        ),
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rank", models.PositiveSmallIntegerField()),
                ("stream", models.CharField(max_length=6)),
                ("offset", models.PositiveBigIntegerField()),
                ("length", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("at", models.DateTimeField()),
                ("attempt", models.ForeignKey(on_delete=models.CASCADE, related_name="log_chunks", to="jobs.attempt")),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "rank", "stream", "offset"), name="log_chunk_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="MemoryWatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.JSONField(
                        help_text="What the scheduler remembers of this node: a scheduler.contention.Watch."
                    ),
                ),
                ("since", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField()),
                (
                    "ordered_at",
                    models.DateTimeField(
                        help_text="When the order was given that the node has not confirmed yet.", null=True
                    ),
                ),
                ("begun_at", models.DateTimeField()),
                (
                    "node",
                    models.OneToOneField(on_delete=models.CASCADE, related_name="memory_watch", to="cluster.node"),
                ),
            ],
            options={"indexes": [models.Index(fields=["due_at"], name="memory_watch_due")]},
        ),
        migrations.CreateModel(
            name="Promise",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "shares",
                    models.JSONField(help_text="What is promised: [[node id, GPUs, cores, memory in MiB], ...]."),
                ),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("call-back", "called back"),
                            ("resize", "resized"),
                            ("move", "moved"),
                            ("preempt", "preempted"),
                        ],
                        max_length=16,
                    ),
                ),
                ("planning_number", models.PositiveBigIntegerField()),
                ("given_at", models.DateTimeField()),
                ("job", models.OneToOneField(on_delete=models.CASCADE, related_name="promise", to="jobs.job")),
                (
                    "cores_wanted",
                    models.PositiveIntegerField(
                        help_text="The cores for each GPU (for a CPU job: in all) that the promise was made with.",
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QueueChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                (
                    "stamp",
                    models.BigIntegerField(
                        help_text="On Postgres, the transaction that wrote it. 0 on SQLite, where ids alone give the order."
                    ),
                ),
                ("at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["stamp"], name="queue_change_by_stamp")]},
        ),
        migrations.CreateModel(
            name="Slowing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "means",
                    models.CharField(
                        help_text="How it is held back: the name of one of its node's throttles.", max_length=8
                    ),
                ),
                (
                    "cause",
                    models.CharField(
                        choices=[
                            ("hurt", "a training job beside it fell back"),
                            ("trial", "to see whether a training job beside it gets faster"),
                        ],
                        max_length=8,
                    ),
                ),
                ("share", models.FloatField(help_text="The part of what it had before that it still has.")),
                (
                    "drew",
                    models.FloatField(
                        help_text="The part of the node's memory bandwidth that it took when it was slowed."
                    ),
                ),
                (
                    "lost",
                    models.FloatField(
                        help_text="The part of its speed that the training job had lost. Null: not known.", null=True
                    ),
                ),
                ("cores_before", models.PositiveIntegerField()),
                (
                    "cores_owed",
                    models.PositiveIntegerField(
                        help_text="How many cores it gets back as they become idle.", null=True
                    ),
                ),
                ("from_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField(help_text="When the last order was given.")),
                ("to_at", models.DateTimeField(null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("harmless", "it slowed nobody"),
                            ("gone", "the training job has left the node"),
                            ("calm", "there was room for its traffic again"),
                            ("off", "switched off"),
                            ("ended", "the slowed job has ended"),
                        ],
                        max_length=8,
                    ),
                ),
                ("attempt", models.ForeignKey(on_delete=models.CASCADE, related_name="slowings", to="jobs.attempt")),
                (
                    "helped",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="relieved_by", to="jobs.attempt"
                    ),
                ),
                ("node", models.ForeignKey(on_delete=models.CASCADE, related_name="slowings", to="cluster.node")),
            ],
            options={
                "ordering": ["-from_at", "-pk"],
                "indexes": [
                    models.Index(fields=["node", "-from_at"], name="slowing_by_node"),
                    models.Index(
                        condition=models.Q(("cores_owed__isnull", False)), fields=["attempt"], name="slowing_owed"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("to_at", None)), fields=("attempt",), name="one_open_slowing_an_attempt"
                    )
                ],
            },
        ),
        migrations.RunPython(trigrams_make, trigrams_drop),
    ]
