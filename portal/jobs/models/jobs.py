"""A job: what was asked for, how far it came, and the rows that belong to it alone."""

from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from portal.choices import TextChoices
from portal.jobs.keys import KEY_LENGTH, key_new
from portal.jobs.querysets import JobQuerySet
from portal.jobs.states import JobState, StopCause


class Job(models.Model):
    """What a tenant asked for and how far it came. An array's parent (`array_size` set) stands for its tasks."""

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
        max_length=KEY_LENGTH, default=key_new, editable=False, help_text="Its name on nodes; it never comes again."
    )
    name = models.CharField(max_length=128)
    labels = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.PENDING)

    category = models.CharField(max_length=8, choices=Category.choices, null=True)
    pipelined = models.BooleanField(null=True)
    model = models.CharField(max_length=128, blank=True)
    parameters = models.PositiveBigIntegerField(null=True)
    heavy_between_iterations = models.BooleanField(null=True)
    instrumented = models.BooleanField(default=False, help_text="Records its iterations, so it may be profiled.")

    gpus = models.JSONField(help_text="The requirement set, ascending: [1, 2, 4]; [0] is a CPU job.")
    gpus_least = models.GeneratedField(
        expression=Cast(KeyTextTransform(0, "gpus"), models.IntegerField()),
        output_field=models.IntegerField(),
        db_persist=True,
    )  # the smallest requirement, as a column that can be counted by
    gpu_types = models.JSONField(default=list, help_text="Allowed types by name; empty: any.")
    cores_per_gpu = models.PositiveIntegerField(null=True)
    cores_exactly = models.BooleanField(default=False, help_text="These cores a GPU, never fewer, and never tuned.")
    cores = models.PositiveIntegerField(null=True, help_text="CPU jobs: cores in all.")
    memory_mib = models.PositiveBigIntegerField(null=True)
    shareable = models.BooleanField(default=False, help_text="May run beside others on one GPU, with a part of it.")
    gpu_compute = models.PositiveSmallIntegerField(null=True, help_text="Of a shareable job: thousandths of a GPU.")
    gpu_memory_mib = models.PositiveIntegerField(null=True, help_text="Of a shareable job: of the GPU's memory.")
    gpu_memory_whole = models.BooleanField(
        default=False, help_text="It was ended with less GPU memory than it asks for, and gets all of that from now on."
    )
    latency_class = models.CharField(
        max_length=8,
        choices=LatencyClass.choices,
        default=LatencyClass.BATCH,
        help_text="latency: somebody waits for its answers, so it never gets less than it asks for.",
    )
    software_need = models.CharField(max_length=80, blank=True, help_text="What its node must offer; empty: nothing.")
    disk_gib = models.FloatField(null=True)
    time_limit_s = models.PositiveIntegerField(null=True)
    batch_per_gpu = models.PositiveIntegerField(null=True)
    samples = models.PositiveBigIntegerField(null=True)
    learning_rate = models.JSONField(null=True, help_text='{"at": 4, "value": 4e-4, "rule": "linear"} or one a size')
    expected_duration_s = models.FloatField(null=True)
    grace_s = models.PositiveIntegerField(null=True, help_text="From SIGTERM to SIGKILL; null: 30 s.")
    checkpointable = models.BooleanField(default=False)
    restartable = models.BooleanField(default=False)
    retries = models.PositiveSmallIntegerField(default=0)
    max_requeues = models.PositiveSmallIntegerField(default=5)
    priority = models.SmallIntegerField(default=0)

    array = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    array_index = models.PositiveIntegerField(null=True)
    array_size = models.PositiveIntegerField(null=True)
    array_concurrency = models.PositiveIntegerField(null=True)
    array_made = models.PositiveIntegerField(default=0, help_text="Tasks that exist as rows so far.")
    array_counts = models.JSONField(default=dict, help_text="Tasks by state, for the folded row.")
    array_retries = models.PositiveIntegerField(default=0, help_text="Failed tasks that are to wait again.")
    retry_asked_at = models.DateTimeField(
        null=True, help_text="A failed task that waits again when its array has room."
    )

    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, help_text="First start; the age is fixed then.")
    ended_at = models.DateTimeField(null=True)
    waited_s = models.FloatField(default=0, help_text="Eligible waiting so far, without the present stretch.")
    waiting_since = models.DateTimeField(null=True, help_text="Start of the present eligible stretch.")
    age_s = models.FloatField(null=True, help_text="Expected run time behind the latency ratio.")
    age_source = models.CharField(max_length=32, blank=True)

    epoch = models.PositiveIntegerField(default=0, help_text="Number of the last attempt.")
    failures = models.PositiveIntegerField(default=0)
    requeues = models.PositiveIntegerField(default=0)
    preemptions = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    held_by = models.CharField(max_length=150, blank=True)
    checkpoint_domain = models.CharField(max_length=100, blank=True, help_text="Where its checkpoint can be read.")
    ran_s = models.FloatField(default=0, help_text="Run time over all ended attempts.")
    attained_gpu_s = models.FloatField(default=0, help_text="GPUs times run time over all ended attempts.")
    restart_s = models.FloatField(null=True, help_text="What being stopped and started again took it, on average.")
    called_back_epoch = models.PositiveIntegerField(null=True, help_text="Attempt that gave back what it had borrowed.")

    overran_epoch = models.PositiveIntegerField(null=True, help_text="Attempt that did not stop within its grace.")
    reason = models.CharField(max_length=32, blank=True, help_text="Why it waits: the fixed vocabulary.")
    reason_figures = models.JSONField(default=dict)
    reason_at = models.DateTimeField(null=True)
    in_window = models.BooleanField(null=True)
    exit_code = models.IntegerField(null=True)
    end_detail = models.CharField(max_length=300, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            # The lists' indexes hold all that a list's order and counts read: the rows themselves are wide, and a tenant's lie
            # all over the table. `array` tells an array's tasks, which lists leave out.
            models.Index(fields=["state", "-id", "array"], name="job_by_state"),
            models.Index(
                fields=["tenant", "state", "-id", "reason", "array"], condition=Q(array=None), name="job_top_by_tenant"
            ),
            models.Index(
                fields=["owner", "state", "-id", "reason", "tenant", "array"],
                condition=Q(array=None),
                name="job_top_by_owner",
            ),
            models.Index(
                fields=["-started_at", "-id", "tenant", "array"],
                condition=Q(array=None, started_at__isnull=False),
                name="job_top_by_start",
            ),
            models.Index(
                fields=["-ended_at", "-id", "array", "tenant"], condition=Q(ended_at__isnull=False), name="job_by_end"
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
    def number(self) -> str:
        """Return what people call it: 1044, or 1044_6 for the task with index 6 of array 1044."""
        return f"{self.array_id}_{self.array_index}" if self.array_id else str(self.pk)

    @property
    def gave_back(self) -> bool:
        """Say whether its last attempt was called back: the job then stands at the head of its array."""
        return self.called_back_epoch is not None and self.called_back_epoch == self.epoch

    @property
    def is_requeueable(self) -> bool:
        """Say whether a lost attempt may be run again: it can resume, or its tenant allows a start from zero."""
        return self.checkpointable or self.restartable


class JobPayload(models.Model):
    """The bulky part of a job, apart so that lists stay fast. An array's tasks use their parent's."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="payload")
    command = models.TextField()
    files = models.JSONField(default=dict, help_text="Relative name -> base64")
    working_directory = models.CharField(max_length=1024, blank=True)
    environment = models.JSONField(default=dict)
    software = models.JSONField(default=dict, help_text="One of environment, path, requirements; {}: the node's own.")
    description = models.JSONField(help_text="As it was submitted, for relaunching.")

    def __str__(self) -> str:
        return f"payload of job {self.pk}"


class JobText(models.Model):
    """What a job is found by in a search (`portal.jobs.searching`): a narrow row, written once.

    In the job's own row the search read 100 MB for 150 000 jobs, and an index on it would be written at each planning.
    Tasks of arrays have none: lists show arrays folded. On Postgres a trigram index, where the extension may be created.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="text")
    text = models.TextField(help_text="In lower case: the name, then name=value for each label, a line each.")

    def __str__(self) -> str:
        return f"text of job {self.job_id}"


class JobDependency(models.Model):
    """`job` may start once `on` has completed (or, for kind any, ended)."""

    class Kind(TextChoices):
        OK = "ok", "completed"
        ANY = "any", "ended"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependants")
    kind = models.CharField(max_length=4, choices=Kind.choices, default=Kind.OK)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "on"], name="dependency_once"),
            models.CheckConstraint(condition=~Q(job=F("on")), name="dependency_not_on_itself"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.on_id}"


class JobEvent(models.Model):
    """What happened to a job, for its timeline."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=32)
    epoch = models.PositiveIntegerField(null=True)
    text = models.CharField(max_length=300)
    actor_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "-id"])]

    def __str__(self) -> str:
        return f"{self.job_id} {self.kind}"


class CoreTuning(models.Model):
    """The cores per GPU that tuning found best for a job: where its owner's later jobs of the category start."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="core_tuning")
    owner = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="+")
    category = models.CharField(max_length=16, blank=True)
    cores_per_gpu = models.PositiveIntegerField()
    steps = models.PositiveIntegerField(default=0, help_text="Settings measured; 0: given by hand.")
    tuned_at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["owner", "category", "cores_per_gpu"], name="core_tuning_of_owner")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.cores_per_gpu} cores a GPU"


class IdempotencyKey(models.Model):
    """A submit's key: the same key and body answers with the same job, another body is refused."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    body_digest = models.CharField(max_length=64)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return self.key


class Promise(models.Model):
    """What a planning keeps for a job until it starts there: gone when the job starts, ends, is held, or it lapses."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="promise")
    shares = models.JSONField(help_text="[[node id, GPUs, cores, memory in MiB], ...]")
    cause = models.CharField(max_length=16, choices=StopCause.choices)
    planning_number = models.PositiveBigIntegerField()
    given_at = models.DateTimeField()
    cores_wanted = models.PositiveIntegerField(null=True, help_text="A GPU (a CPU job: in all), by which it was given.")

    def __str__(self) -> str:
        return f"promise to job {self.job_id} by planning {self.planning_number}"


class QueueChange(models.Model):
    """A waiting job that came, changed or left: written by triggers, so that a planner reads only what changed.

    A planner that has seen all transactions before some moment reads the rows from that moment on
    (`portal.rounds.planning.queue_kept`).
    """

    job_id = models.BigIntegerField()
    stamp = models.BigIntegerField(help_text="The writing transaction, on Postgres; 0 on SQLite, where ids ascend.")
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["stamp"], name="queue_change_by_stamp")]

    def __str__(self) -> str:
        return f"job {self.job_id}"
