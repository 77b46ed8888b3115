"""An attempt of a job: its parts on nodes (invariants 1, 2 and 4 are constraints here), and its output."""

from django.db import models
from django.db.models import Q

from portal.foundation.choices import TextChoices
from portal.work.jobs.keys import KEY_LENGTH, key_new
from portal.work.jobs.models.jobs import Job
from portal.work.jobs.querysets import AttemptQuerySet
from portal.work.jobs.states import AttemptState, StopCause, StopReason


class Attempt(models.Model):
    """One run of a job, or a profile of it. `epoch` counts a job's attempts of a kind; only live ones' messages count.

    A profile is some iterations in scratch while the job waits (algorithms.md, section 2): it holds resources and is fenced
    as a run is, but it never moves its job's state. A job has one live run at most; profiles, one a signature and type.
    """

    class Kind(TextChoices):
        RUN = "run", "run"
        PROFILE = "profile", "profile"

    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.RUN)
    profile_of = models.CharField(
        max_length=200, blank=True, help_text="For a profile: the signature that it measures."
    )
    profile_type = models.ForeignKey(
        "cluster.GpuType",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="For a profile: the GPU type that it measures on.",
    )
    time_limit_s = models.PositiveIntegerField(
        null=True, help_text="For a profile: its time limit. A run has the limit of its job."
    )
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    epoch = models.PositiveIntegerField()
    key = models.CharField(
        max_length=KEY_LENGTH,
        default=key_new,
        editable=False,
        help_text="What nodes call it. No other ever gets the same key.",
    )
    state = models.CharField(max_length=16, choices=AttemptState.choices, default=AttemptState.STARTING)
    planning_number = models.PositiveBigIntegerField(null=True)
    gpus = models.PositiveIntegerField()
    gpu_compute = models.PositiveSmallIntegerField(
        null=True, help_text="The part of its one GPU that it holds, in thousandths. Null: it has its GPUs for itself."
    )
    gpu_busy = models.FloatField(
        null=True,
        help_text="The part of what it held of GPUs, in time, that computed: 0 to 1. Null: not measured, or not yet.",
    )
    cores = models.PositiveIntegerField()
    cores_wanted = models.PositiveIntegerField(
        null=True, help_text="The cores for each GPU (for a CPU job: in all) that it was placed with. Null: an old row."
    )
    rendezvous_port = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    lease_s = models.PositiveIntegerField(
        null=True,
        help_text="Seconds of silence of its node after which it ends. Null: never, because it may not run again.",
    )
    stop_reason = models.CharField(max_length=16, choices=StopReason.choices, blank=True)
    stop_at = models.DateTimeField(null=True)
    stop_cause = models.CharField(
        max_length=16, choices=StopCause.choices, blank=True, help_text="Why a planning stopped it."
    )
    stop_for = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    stop_to_gpus = models.PositiveIntegerField(
        null=True, help_text="The number of GPUs that it should go on with. 0: it waits."
    )
    restart_s = models.FloatField(
        null=True, help_text="Seconds from the order that stopped the attempt before until this one ran."
    )
    exit_code = models.IntegerField(null=True)
    signal = models.PositiveSmallIntegerField(
        null=True, help_text="The signal that ended its command, which then has no exit code."
    )
    end_detail = models.CharField(max_length=300, blank=True)
    commit = models.CharField(max_length=64, blank=True, help_text="The commit of its code, as its nodes fetched it.")

    objects = AttemptQuerySet.as_manager()

    class Meta:
        ordering = ["job", "-epoch"]
        indexes = [
            models.Index(fields=["created_at"], condition=Q(kind="profile"), name="attempt_profiles_by_time"),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="attempt_by_end"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job", "kind", "epoch"], name="attempt_epoch_once"),
            models.UniqueConstraint(fields=["key"], name="attempt_key_once"),
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at=None, kind="run"), name="one_live_attempt_a_job"
            ),
            models.UniqueConstraint(
                fields=["profile_of", "profile_type"],
                condition=Q(ended_at=None, kind="profile"),
                name="one_live_profile_a_signature_and_type",
            ),
            models.CheckConstraint(
                condition=Q(kind="run", profile_of="", time_limit_s=None)
                | Q(kind="profile", time_limit_s__isnull=False) & ~Q(profile_of=""),
                name="attempt_profile_says_of_what",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None, state__in=["STARTING", "RUNNING"])
                | Q(ended_at__isnull=False) & ~Q(state__in=["STARTING", "RUNNING"]),
                name="attempt_ended_has_final_state",
            ),
        ]

    def __str__(self) -> str:
        return f"{'profile' if self.is_profile else 'attempt'} {self.epoch} of job {self.job_id}"

    @property
    def is_profile(self) -> bool:
        return self.kind == self.Kind.PROFILE


class Allocation(models.Model):
    """An attempt's part on one node, and how it fares."""

    class State(TextChoices):
        WANTED = "wanted", "wanted"
        PREPARED = "prepared", "prepared"
        RUNNING = "running", "running"
        ENDED = "ended", "ended"

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="allocations")
    node = models.ForeignKey("cluster.Node", on_delete=models.PROTECT, related_name="allocations")
    rank = models.PositiveSmallIntegerField()
    core_ids = models.JSONField(
        help_text="The cores that it holds. Those that it was told to give back count until its node says so."
    )
    core_ids_ordered = models.JSONField(
        null=True, help_text="The cores that it should have by the last order. Null: the same as core_ids."
    )
    share = models.FloatField(
        default=1.0, help_text="The part of its memory bandwidth or CPU time that the last order left it. 1: all."
    )
    cores_sequence = models.PositiveBigIntegerField(
        default=0, help_text="The number of the last order about its cores. 0: there was none."
    )
    cores_acknowledged = models.PositiveBigIntegerField(
        null=True, help_text="The number of the order that its node follows. Null: its agent takes no such orders."
    )
    memory_mib = models.PositiveBigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WANTED)
    sequence = models.PositiveBigIntegerField(default=0, help_text="The number of the last report that was accepted.")
    pid = models.PositiveIntegerField(null=True)
    ports = models.JSONField(
        default=list, help_text="The TCP ports that its processes listen on, as its node last said."
    )
    exit_code = models.IntegerField(null=True)
    signal = models.PositiveSmallIntegerField(
        null=True, help_text="The signal that ended its command, which then has no exit code."
    )
    end_reason = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    missed_at = models.DateTimeField(null=True, help_text="When its node first sent a report in which it was missing.")
    released_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["attempt", "rank"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank"], name="allocation_rank_once"),
            models.UniqueConstraint(fields=["attempt", "node"], name="allocation_node_once"),
        ]
        indexes = [
            models.Index(fields=["node"], condition=Q(released_at=None), name="allocation_live_by_node"),
            models.Index(fields=["released_at"], name="allocation_by_release"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} on {self.node}"


class GpuAllocation(models.Model):
    """A GPU, or a part of one, held by an allocation. `mode` must be the GPU's (a trigger), and one exclusive at a time (the
    index); the parts of a shared GPU never come to more than it has, in compute and in memory (a trigger).
    """

    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="gpu_allocations")
    gpu = models.ForeignKey("cluster.Gpu", on_delete=models.PROTECT, related_name="allocations")
    mode = models.CharField(max_length=16, default="exclusive")
    compute = models.PositiveSmallIntegerField(
        default=1000, help_text="The part of the GPU's computing, in thousandths."
    )
    memory_mib = models.PositiveIntegerField(
        null=True, help_text="The part of the GPU's memory, in MiB. Null: all of it."
    )
    created_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"], condition=Q(released_at=None, mode="exclusive"), name="one_exclusive_allocation_a_gpu"
            ),
            models.UniqueConstraint(fields=["allocation", "gpu"], name="gpu_once_an_allocation"),
            models.CheckConstraint(
                condition=Q(mode="exclusive", compute=1000, memory_mib=None)
                | Q(mode="shared", compute__range=(1, 1000), memory_mib__isnull=False, memory_mib__gte=1),
                name="gpu_allocation_part_of_a_shared_one",
            ),
        ]
        indexes = [models.Index(fields=["released_at"], name="gpu_allocation_by_release")]

    def __str__(self) -> str:
        return f"{self.gpu} for {self.allocation}"


class LogChunk(models.Model):
    """A piece of an attempt's output, appended only at the stored length, so that none is lost or doubled."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks")
    rank = models.PositiveSmallIntegerField()
    stream = models.CharField(max_length=6)
    offset = models.PositiveBigIntegerField()
    length = models.PositiveIntegerField()
    data = models.BinaryField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "stream", "offset"], name="log_chunk_once"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} {self.stream}@{self.offset}"
