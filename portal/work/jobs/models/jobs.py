"""A job: its description, and how far it came."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from portal.foundation.choices import TextChoices
from portal.work.jobs.keys import KEY_LENGTH, key_new
from portal.work.jobs.querysets import JobQuerySet
from portal.work.jobs.states import JobState


class Job(models.Model):
    """A tenant's wish and how far it came. An array's parent (`array_size` set) stands for its tasks."""

    class Category(TextChoices):
        CV = "cv", "cv"
        NLP = "nlp", "nlp"
        SPEECH = "speech", "speech"
        CPU = "cpu", "cpu"
        OTHER = "other", "other"

    class LatencyClass(TextChoices):
        BATCH = "batch", "batch"
        LATENCY = "latency", "latency"

    # db_index=False: the indexes below begin with these. A planning may rewrite 100 000 rows, and each index once more.
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="jobs", db_index=False)
    owner = models.ForeignKey("tenants.User", on_delete=models.PROTECT, related_name="jobs", db_index=False)
    # Never looked up, so it has no index; 128 random bits need none to be unique.
    key = models.CharField(
        max_length=KEY_LENGTH,
        default=key_new,
        editable=False,
        help_text="What nodes call it. No other ever gets the same key.",
    )
    name = models.CharField(max_length=128)
    labels = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.PENDING)

    category = models.CharField(max_length=8, choices=Category.choices, null=True)
    pipelined = models.BooleanField(null=True)
    model = models.CharField(max_length=128, blank=True)
    parameters = models.PositiveBigIntegerField(null=True)
    heavy_between_iterations = models.BooleanField(null=True)
    instrumented = models.BooleanField(
        default=False, help_text="Its program records its iterations, so Berth may profile it."
    )

    gpus = models.JSONField(
        help_text="The numbers of GPUs it can run on, smallest first, such as [1, 2, 4]. A CPU job has [0]."
    )
    gpus_least = models.GeneratedField(
        expression=Cast(KeyTextTransform(0, "gpus"), models.IntegerField()),
        output_field=models.IntegerField(),
        db_persist=True,
    )  # the smallest requirement, as a column that can be counted by
    gpu_types = models.JSONField(default=list, help_text="Names of the GPU types it may run on. Empty: any type.")
    cores_per_gpu = models.PositiveIntegerField(null=True)
    cores_exactly = models.BooleanField(
        default=False,
        help_text="It gets exactly cores_per_gpu cores for each GPU: never fewer, and core tuning leaves it alone.",
    )
    cores = models.PositiveIntegerField(null=True, help_text="Only for CPU jobs: the number of cores on its node.")
    memory_mib = models.PositiveBigIntegerField(null=True)
    shareable = models.BooleanField(
        default=False, help_text="It takes a part of one GPU, and other jobs may use the rest of that GPU meanwhile."
    )
    gpu_compute = models.PositiveSmallIntegerField(
        null=True, help_text="For a shareable job: how much of the GPU's computing it needs, in thousandths."
    )
    gpu_memory_mib = models.PositiveIntegerField(
        null=True, help_text="For a shareable job: how much of the GPU's memory it needs, in MiB."
    )
    gpu_memory_whole = models.BooleanField(
        default=False,
        help_text="It once ended because it had less GPU memory than it asked for. From now on it gets all it asks for.",
    )
    latency_class = models.CharField(
        max_length=8,
        choices=LatencyClass.choices,
        default=LatencyClass.BATCH,
        help_text="latency means that somebody waits for its answers: it never gets less than it asks for.",
    )
    software_need = models.CharField(
        max_length=80, blank=True, help_text="The software that a node must offer to run it. Empty: none."
    )
    disk_gib = models.FloatField(null=True)
    time_limit_s = models.PositiveIntegerField(null=True)
    idle_timeout_s = models.PositiveIntegerField(
        null=True, help_text="Seconds without use after which it is ended. Null: never."
    )
    start_after = models.DateTimeField(null=True, help_text="It does not start before this time. Null: at once.")
    batch_per_gpu = models.PositiveIntegerField(null=True)
    samples = models.PositiveBigIntegerField(null=True)
    learning_rate = models.JSONField(
        null=True,
        help_text='A rule such as {"at": 4, "value": 4e-4, "rule": "linear"}, or one learning rate for each size.',
    )
    expected_duration_s = models.FloatField(null=True)
    grace_s = models.PositiveIntegerField(
        null=True, help_text="Seconds that it has between SIGTERM and SIGKILL when it is stopped. Null: 30 s."
    )
    checkpointable = models.BooleanField(default=False)
    restartable = models.BooleanField(default=False)
    log_matches = models.JSONField(
        default=list,
        help_text="Texts that, in a line of its log, are told: `portal.work.jobs.fields.keeping`. [] mostly.",
    )
    retries = models.PositiveSmallIntegerField(default=0)
    max_requeues = models.PositiveSmallIntegerField(default=5)
    priority = models.SmallIntegerField(default=0)

    array = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    array_index = models.PositiveIntegerField(null=True)
    array_size = models.PositiveIntegerField(null=True)
    array_concurrency = models.PositiveIntegerField(null=True)
    array_made = models.PositiveIntegerField(
        default=0, help_text="How many of the array's tasks have a row of their own so far."
    )
    array_counts = models.JSONField(
        default=dict,
        help_text="How many of the array's tasks are in each state. Lists show this in the array's one row.",
    )
    array_retries = models.PositiveIntegerField(default=0, help_text="How many failed tasks shall be tried again.")
    retry_asked_at = models.DateTimeField(
        null=True,
        help_text="When a retry of this failed task was asked for. The task waits again when its array has room.",
    )

    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(
        null=True, help_text="When it first started. Its expected run time (age_s) does not change after that."
    )
    ended_at = models.DateTimeField(null=True)
    waited_s = models.FloatField(
        default=0,
        help_text="Seconds that it waited while it could have started. The time since waiting_since is not in it yet.",
    )
    waiting_since = models.DateTimeField(
        null=True,
        help_text="Since when it waits and could start. Null while it runs, is held or waits for another job.",
    )
    age_s = models.FloatField(
        null=True, help_text="Expected run time in seconds. The latency ratio divides the waiting time by it."
    )
    age_source = models.CharField(max_length=32, blank=True)
    age_spread = models.FloatField(
        null=True,
        help_text="How sure its expected run time was when it first started: its logarithm's standard deviation.",
    )
    age_runs = models.PositiveIntegerField(null=True, help_text="The number of ended jobs behind it.")

    epoch = models.PositiveIntegerField(default=0, help_text="The number of its last attempt.")
    failures = models.PositiveIntegerField(default=0)
    requeues = models.PositiveIntegerField(default=0)
    preemptions = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    held_by = models.CharField(max_length=150, blank=True)
    checkpoint_domain = models.CharField(
        max_length=100, blank=True, help_text="The storage domain whose nodes can read its checkpoint."
    )
    ran_s = models.FloatField(default=0, help_text="Seconds that its ended attempts ran, added up.")
    attained_gpu_s = models.FloatField(default=0, help_text="GPUs times seconds, added up over its ended attempts.")
    restart_s = models.FloatField(null=True, help_text="Seconds that a stop and the next start took, on average.")
    called_back_epoch = models.PositiveIntegerField(
        null=True, help_text="The attempt that was stopped because it had to give back borrowed GPUs."
    )

    overran_epoch = models.PositiveIntegerField(
        null=True, help_text="The attempt that did not end within its grace time when it was stopped."
    )
    reason = models.CharField(max_length=32, blank=True, help_text="Why it waits: one of a fixed list of words.")
    reason_figures = models.JSONField(default=dict)
    reason_at = models.DateTimeField(null=True)
    in_window = models.BooleanField(null=True)
    exit_code = models.IntegerField(null=True)
    signal = models.PositiveSmallIntegerField(
        null=True, help_text="The signal that ended its command, which then has no exit code."
    )
    end_detail = models.CharField(max_length=300, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            # The lists' indexes hold all that a list's order and counts read: the rows themselves are wide, and a tenant's lie
            # all over the table. `array` marks an array's tasks, which lists leave out. The last two find the longest waiting.
            # Tenant and reason stand in it for lists that join with something else and count: the narrowest index with all of it.
            models.Index(fields=["state", "-id", "array", "tenant", "reason"], name="job_by_state"),
            models.Index(
                fields=["tenant", "state", "-id", "reason", "array", "waiting_since", "waited_s"],
                condition=Q(array=None),
                name="job_top_by_tenant",
            ),
            models.Index(
                fields=["owner", "state", "-id", "reason", "tenant", "array"],
                condition=Q(array=None),
                name="job_top_by_owner",
            ),
            # The columns that lists count by, so that Postgres keeps each value once: a thirtieth of the index above it.
            models.Index(fields=["tenant", "state", "reason", "array"], condition=Q(array=None), name="job_top_counts"),
            models.Index(
                fields=["-submitted_at", "-id", "tenant", "array", "state", "owner", "reason"],
                condition=Q(array=None),
                name="job_top_by_submission",
            ),
            # For sums of a tenant's use; tasks of arrays are in it.
            models.Index(fields=["tenant", "-id", "array", "owner", "category"], name="job_by_tenant"),
            models.Index(
                fields=["-started_at", "-id", "tenant", "array", "state", "owner", "reason"],
                condition=Q(array=None, started_at__isnull=False),
                name="job_top_by_start",
            ),
            models.Index(
                fields=["-ended_at", "-id", "array", "tenant", "state", "owner", "reason"],
                condition=Q(ended_at__isnull=False),
                name="job_by_end",
            ),
            models.Index(fields=["-id"], condition=Q(restart_s__isnull=False), name="job_restarted"),
            models.Index(fields=["array", "state"], condition=Q(array__isnull=False), name="job_tasks_by_state"),
            models.Index(
                fields=["array", "array_index"], condition=Q(retry_asked_at__isnull=False), name="job_tasks_to_retry"
            ),
            models.Index(fields=["tenant"], condition=Q(array_size__isnull=False), name="job_arrays_by_tenant"),
            # Covers what `queue_counts` reads; Postgres then never looks at the rows, which are wide.
            models.Index(
                fields=["state", "reason", "gpus_least", "waiting_since", "waited_s", "age_s"],
                condition=Q(array_size=None, cancel_requested_at=None, ended_at=None),
                name="job_unfinished_counts",
            ),
            # For forecasts of unfinished jobs, of which few have either.
            models.Index(
                fields=["id", "time_limit_s"],
                condition=Q(array_size=None, ended_at=None, time_limit_s__isnull=False),
                name="job_unfinished_limits",
            ),
            models.Index(  # for each planning; few jobs have one
                fields=["start_after"],
                condition=Q(ended_at=None, start_after__isnull=False),
                name="job_unfinished_start_after",
            ),
            models.Index(
                fields=["id", "ran_s"],
                condition=Q(checkpointable=True, ended_at=None, ran_s__gt=0),
                name="job_unfinished_ran",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["array", "array_index"], condition=Q(array__isnull=False), name="array_task_once"
            ),
            models.CheckConstraint(condition=Q(priority__range=(-100, 100)), name="job_priority_range"),
        ]

    def __str__(self) -> str:
        return f"#{self.number} {self.name}"

    @property
    def brought(self) -> Any:
        """Return its payload; an array's tasks use their parent's."""
        return self.array.payload if self.array_id else self.payload

    @property
    def number(self) -> str:
        """Return its number for people: 1044, or 1044_6 for the task with index 6 of array 1044."""
        return f"{self.array_id}_{self.array_index}" if self.array_id else str(self.pk)

    @property
    def gave_back(self) -> bool:
        """Say whether its last attempt was called back: the job then stands at the head of its array."""
        return self.called_back_epoch is not None and self.called_back_epoch == self.epoch

    @property
    def is_requeueable(self) -> bool:
        """Say whether a lost attempt may be run again: it can resume, or its tenant allows a start from zero."""
        return self.checkpointable or self.restartable
