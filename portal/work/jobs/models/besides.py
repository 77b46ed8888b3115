"""The rows that belong to one job, beside its own: its bulk, its text, its events, its promise and the like."""

from django.db import models
from django.db.models import F, Q

from portal.foundation.choices import TextChoices
from portal.work.jobs.models.jobs import Job
from portal.work.jobs.states import StopCause


class JobPayload(models.Model):
    """The bulky part of a job, apart so that lists stay fast. An array's tasks use their parent's."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="payload")
    command = models.TextField()
    files = models.JSONField(
        default=dict, help_text="File names, relative to the job's folder, and their contents in base64."
    )
    upload = models.ForeignKey(
        "uploads.Upload",
        on_delete=models.SET_NULL,
        null=True,
        related_name="payloads",
        help_text="The larger set of files that the job brings; null: none, or removed long after its end.",
    )
    working_directory = models.CharField(max_length=1024, blank=True)
    environment = models.JSONField(default=dict)
    software = models.JSONField(
        default=dict, help_text="One of environment, path and requirements. {}: it uses what is installed on the node."
    )
    code = models.JSONField(
        default=dict,
        help_text="Where its code comes from: git, ref, secret and the commit that was found first; or path. {}: its files.",
    )
    description = models.JSONField(
        help_text="The description as it was submitted, so that the job can be submitted again."
    )
    template = models.JSONField(
        default=dict, help_text="The job template that it was made of: id, name, version, tenant and values. {}: none."
    )

    def __str__(self) -> str:
        return f"payload of job {self.pk}"


class JobText(models.Model):
    """The words that find a job (`portal.work.jobs.searching`): a narrow row, written once.

    In the job's own row the search read 100 MB for 150 000 jobs, and an index on it would be written at each planning.
    Tasks of arrays have none: lists show arrays folded. On Postgres a trigram index, where the extension may be created.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="text")
    text = models.TextField(
        help_text="What a search looks through, in lower case: the name, then one line name=value for each label."
    )
    submitted_at = models.DateTimeField()
    category = models.CharField(max_length=8, null=True)

    class Meta:
        indexes = [
            models.Index(fields=["submitted_at", "job"], name="job_text_by_time"),
            models.Index(fields=["category", "job"], name="job_text_by_category"),
        ]

    def __str__(self) -> str:
        return f"text of job {self.job_id}"


class JobLabel(models.Model):
    """A label of a job, in a narrow row of its own by which jobs are found. Tasks of arrays have none."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    pair = models.CharField(
        max_length=319, help_text="name=value, in one column, so that the database knows how rare it is."
    )

    class Meta:
        indexes = [
            models.Index(fields=["name", "job"], name="job_label_by_name"),
            models.Index(fields=["pair", "job"], name="job_label_by_pair"),
        ]

    def __str__(self) -> str:
        return f"{self.pair} of job {self.job_id}"


class JobDependency(models.Model):
    """`job` may start once `on` has completed; of kind any or single once it ended, of notok once it failed."""

    class Kind(TextChoices):
        OK = "ok", "completed"
        ANY = "any", "ended"
        NOT_OK = "notok", "failed"
        SINGLE = "single", "ended, as it has the same name"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependants")
    kind = models.CharField(max_length=6, choices=Kind.choices, default=Kind.OK)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "on"], name="dependency_once"),
            models.CheckConstraint(condition=~Q(job=F("on")), name="dependency_not_on_itself"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.on_id}"


class JobInput(models.Model):
    """An input of a job: an artefact of an earlier job of its tenant, or with a / at its end a folder of them."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="inputs")
    source = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="+", help_text="Null: that job was deleted."
    )
    path = models.CharField(max_length=1025)
    target = models.CharField(max_length=1024, help_text="Where it lies in the job's own directory.")

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.path} of job {self.source_id} for job {self.job_id}"


class JobEvent(models.Model):
    """An event of a job, for its timeline."""

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
    steps = models.PositiveIntegerField(
        default=0, help_text="How many numbers of cores were measured. 0: somebody set the number by hand."
    )
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
    """A promise of a planning to a job until it starts there: gone when the job starts, ends, is held, or it lapses."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="promise")
    shares = models.JSONField(help_text="What is promised: [[node id, GPUs, cores, memory in MiB], ...].")
    cause = models.CharField(max_length=16, choices=StopCause.choices)
    planning_number = models.PositiveBigIntegerField()
    given_at = models.DateTimeField()
    cores_wanted = models.PositiveIntegerField(
        null=True, help_text="The cores for each GPU (for a CPU job: in all) that the promise was made with."
    )

    def __str__(self) -> str:
        return f"promise to job {self.job_id} by planning {self.planning_number}"


class JobApart(models.Model):
    """`job` was ended for GPU memory beside `beside`: it never again shares a GPU with that one, or any that uses as much."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="kept_apart")
    beside = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "beside"], name="job_apart_once")]

    def __str__(self) -> str:
        return f"{self.job_id} apart from {self.beside_id}"


class ClockMark(models.Model):
    """When a machine of the portal's was booted, by its own clock: if that moves, the clock was set.

    And when it last looked for leases that are over, so that a time is noticed in which nobody could.
    """

    boot = models.CharField(
        max_length=128, primary_key=True, help_text="The kernel's name of this boot, and the machine's."
    )
    booted_at = models.DateTimeField()
    looked_at = models.DateTimeField(null=True, help_text="When it last looked for leases that are over.")
    returned_at = models.DateTimeField(
        null=True, help_text="When it last did so after no machine had for a while: nodes could not report meanwhile."
    )
    leapt_at = models.DateTimeField(
        null=True, help_text="When the clock last went ahead by a day or more: deleting waits for a day."
    )
    leapt_s = models.FloatField(null=True, help_text="By how many seconds it went ahead then.")

    def __str__(self) -> str:
        return f"booted {self.booted_at:%F %T}"


class QueueChange(models.Model):
    """A waiting job that came, changed or left: written by triggers, so that a planner reads only what changed.

    A planner that has seen all transactions before some moment reads the rows from that moment on
    (`portal.planning.rounds.planning.memory`).
    """

    job_id = models.BigIntegerField()
    stamp = models.BigIntegerField(
        help_text="On Postgres, the transaction that wrote it. 0 on SQLite, where ids alone give the order."
    )
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["stamp"], name="queue_change_by_stamp")]

    def __str__(self) -> str:
        return f"job {self.job_id}"
