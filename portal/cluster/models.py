"""The cluster registry: GPU types, nodes, their GPUs, and the nodes' measurements."""

from __future__ import annotations

from datetime import timedelta

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Coalesce
from django.utils import timezone

from portal.foundation.choices import TextChoices


class NamedEnvironment(models.Model):
    """A virtual or conda environment, at one directory of every node that has it. Agents look whether theirs has."""

    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z", "Use letters, digits and ._- only.")],
        help_text="By which jobs ask for it: letters, digits and ._-",
    )
    directory = models.CharField(
        max_length=1024, help_text="Where it lies on nodes, as /opt/torch: an absolute directory with bin/python in it."
    )
    note = models.CharField(max_length=200, blank=True, help_text="What is in it, for those who choose.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


HEALTHS = ("up", "disk-low", "drained", "unreachable", "dead")
"""The words of `Node.health`, in the order in which nodes are shown."""

UNREACHABLE_AFTER_S = 30
"""A node without contact for longer is shown as unreachable and gets no new jobs (agents call every 5 s)."""


SAMPLE_FRESH_S = 30
"""A telemetry sample older than this says nothing about now."""


class GpuType(models.Model):
    name = models.CharField(max_length=64, unique=True)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    relative_speed = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.001)],
        help_text="How fast it trains against the other types, for jobs that report no speed: 2 is twice as fast as 1.",
    )
    share_weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.001)],
        help_text="What one of its GPUs counts in a tenant's share: 2 counts as much as two GPUs of a type with 1.",
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class NodeQuerySet(models.QuerySet):
    def reachable(self) -> NodeQuerySet:
        return self.filter(last_contact_at__gt=timezone.now() - timedelta(seconds=UNREACHABLE_AFTER_S))

    def alive(self) -> NodeQuerySet:
        return self.filter(dead_at=None)

    def listed(self) -> NodeQuerySet:
        """All but those that left, as at the end of an allocation: only their own pages show them."""
        return self.filter(left_at=None)

    def possible(self) -> NodeQuerySet:
        """Those that are alive, and allocations that are over: such may come again when jobs need them."""
        return self.filter(models.Q(dead_at=None) | models.Q(is_allocation=True, left_at__isnull=False))

    def with_type(self, name: str) -> NodeQuerySet:
        """Those that have GPUs of the type, of their own type or beside it."""
        beside = Gpu.objects.present().filter(node=models.OuterRef("pk"), gpu_type__name=name)
        return self.filter(models.Q(gpu_type__name=name) | models.Exists(beside))


class Node(models.Model):
    """One server with an agent. `revision` counts changes of its parts; its long poll waits for one."""

    name = models.CharField(max_length=100, unique=True)
    address = models.CharField(max_length=255, blank=True)
    gpu_type = models.ForeignKey(GpuType, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    cores = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    storage_domain = models.CharField(
        max_length=100, help_text="Nodes that share it can read each other's checkpoints."
    )
    rack = models.CharField(max_length=100, blank=True, help_text="Where it stands. Pages can group nodes by it.")
    label = models.CharField(max_length=100, blank=True, help_text="A word of your own. Pages can group nodes by it.")
    boot_id = models.CharField(max_length=64)
    agent_version = models.CharField(max_length=32)
    is_virtual = models.BooleanField(default=False)
    single_account = models.BooleanField(default=True, help_text="Whether all jobs run under the agent's own account.")
    trusts_tenants = models.BooleanField(default=False, help_text="Whether several tenants may share that account.")
    token_digest = models.CharField(max_length=64, unique=True, editable=False)
    token_revoked_at = models.DateTimeField(null=True, blank=True)
    registered_at = models.DateTimeField(auto_now_add=True)
    joined_with = models.ForeignKey("JoinToken", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    is_allocation = models.BooleanField(
        default=False, help_text="It is held by a job of another scheduler, and goes with it."
    )
    only_tenant = models.ForeignKey(
        "tenants.Tenant", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    greeted_at = models.DateTimeField(null=True, blank=True, help_text="The first hello: its agent has kept its token.")
    # No index: it changes every few seconds, and Postgres would then write each index of the row again.
    last_contact_at = models.DateTimeField(null=True, blank=True)
    drained_at = models.DateTimeField(null=True, blank=True)
    drain_reason = models.CharField(max_length=200, blank=True)
    unsettled_since = models.DateTimeField(
        null=True, blank=True, help_text="Restored from a backup; it has not said since what runs on it."
    )
    dead_at = models.DateTimeField(null=True, blank=True, help_text="Declared dead by an operator, or left.")
    left_at = models.DateTimeField(
        null=True, blank=True, help_text="Its agent ended with its parts, as at the end of an allocation."
    )
    ends_at = models.DateTimeField(
        null=True, blank=True, help_text="From then on its jobs are stopped, as at the end of an allocation."
    )
    revision = models.PositiveBigIntegerField(default=1)
    refused_messages = models.PositiveBigIntegerField(default=0, help_text="Outdated messages that were refused.")
    disk_free_mib = models.PositiveBigIntegerField(null=True, blank=True, help_text="Free where its jobs write.")
    disk_total_mib = models.PositiveBigIntegerField(null=True, blank=True)
    disk_low = models.BooleanField(default=False, help_text="Below the agent's mark: it gets no new jobs.")
    isolation = models.JSONField(default=dict, help_text="How its jobs are kept out of Berth's own files, as it says.")
    links = models.JSONField(default=dict, help_text="What it tells of the links of its GPUs and to other nodes.")
    software = models.JSONField(default=dict, help_text="What software it offers to jobs, as its agent says.")
    memory_traffic = models.JSONField(
        default=dict,
        help_text="How it knows its memory's traffic, and how it holds a CPU job back: gb_s, meter, throttle.",
    )
    memory_share = models.FloatField(
        null=True, blank=True, help_text="Of its memory's bandwidth in use (0 to 1), mean of the last telemetry."
    )
    tunes_cores = models.BooleanField(default=True, help_text="Whether the cores of jobs that run on it may be tuned.")
    problems = models.JSONField(default=list, help_text="What its agent tells the operator: [{at, subject, detail}].")
    live = models.JSONField(default=dict, help_text="The last telemetry sample, for pages opened between two.")
    heartbeat_s = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.001), MaxValueValidator(10.0)],
        help_text="How often its agent reads its GPUs, in seconds.",
    )
    findings = models.JSONField(
        default=list, help_text="What its agent's checks found: [{subject, check, level, detail, remedy}]."
    )
    overruled = models.JSONField(default=list, help_text='Findings that an operator set aside: ["subject check"].')
    outside = models.JSONField(default=list, help_text="Processes on its GPUs that are no job's: [{gpu, pid, name}].")
    drained_by_check = models.CharField(max_length=32, blank=True, help_text="Empty: an operator drained it.")

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_reachable(self) -> bool:
        limit = timezone.now() - timedelta(seconds=UNREACHABLE_AFTER_S)
        return self.last_contact_at is not None and self.last_contact_at > limit

    @property
    def health(self) -> str:
        """Return one word of HEALTHS."""
        if self.dead_at:
            return "dead"
        if not self.is_reachable:
            return "unreachable"
        if self.drained_at:
            return "drained"
        return "disk-low" if self.disk_low else "up"

    @property
    def live_gpus(self) -> dict[str, dict[str, float]]:
        """Return the last sample by GPU index; {} when it is too old to say anything about now."""
        live = self.live or {}
        fresh = timezone.now().timestamp() - live.get("at", 0) < SAMPLE_FRESH_S
        return live.get("gpus", {}) if fresh else {}

    @property
    def unused_gpus(self) -> dict[str, float]:
        """Return since when GPUs have not computed, Unix seconds by index; {} where that is not known now."""
        return self.live.get("unused", {}) if self.live_gpus else {}

    @property
    def is_schedulable(self) -> bool:
        return self.health == "up"


class GpuQuerySet(models.QuerySet):
    def present(self) -> GpuQuerySet:
        """Those that the agent sees."""
        return self.filter(missing_since=None)

    def with_type(self) -> GpuQuerySet:
        """Annotate `type_name`, the GPU's type; None where its node reported none."""
        return self.annotate(type_name=Coalesce("gpu_type__name", "node__gpu_type__name"))

    def takes_jobs(self) -> GpuQuerySet:
        """Those of them that are neither cordoned nor used by a process outside Berth."""
        return self.present().filter(cordoned_at=None, outside_since=None)


class Gpu(models.Model):
    class Mode(TextChoices):
        EXCLUSIVE = "exclusive", "Exclusive"
        SHARED = "shared", "Shared"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=64)
    memory_mib = models.PositiveIntegerField()
    gpu_type = models.ForeignKey(
        GpuType,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Empty: the type of its node. A node with several types has the one that it has most of.",
    )
    mode = models.CharField(max_length=16, choices=Mode.choices, default=Mode.EXCLUSIVE)
    mode_by_operator = models.BooleanField(
        default=False, help_text="An operator said whether jobs may share it; the setting shared_gpus leaves it so."
    )
    missing_since = models.DateTimeField(null=True, blank=True, help_text="The agent no longer sees it.")
    cordoned_at = models.DateTimeField(null=True, blank=True, help_text="No new job gets it.")
    cordon_check = models.CharField(max_length=32, blank=True, help_text="Empty: an operator cordoned it.")
    cordon_reason = models.CharField(max_length=300, blank=True)
    cordon_remedy = models.CharField(max_length=300, blank=True)
    outside_since = models.DateTimeField(null=True, blank=True, help_text="A process outside Berth computes on it.")

    objects = GpuQuerySet.as_manager()

    class Meta:
        ordering = ["node", "index"]
        constraints = [models.UniqueConstraint(fields=["node", "index"], name="gpu_index_once_a_node")]

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"

    def type_of(self, node: Node) -> str | None:
        """Return its type's name. `node`: its node, as it was read."""
        own = self.gpu_type or node.gpu_type
        return own.name if own else None

    @property
    def closed_because(self) -> str:
        """Say why no new job gets it, in words for everybody; empty when one may."""
        if self.cordoned_at is not None:
            return f"cordoned: {self.cordon_reason}" if self.cordon_reason else "cordoned"
        return "used by a process outside Berth" if self.outside_since is not None else ""


class JoinToken(models.Model):
    """Lets a new machine register as a node. Only its SHA-256 is kept."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    node_name = models.CharField(max_length=100, blank=True, help_text="Only this node may use it; empty: any name.")
    uses_left = models.PositiveIntegerField(default=1)
    takes_over = models.BooleanField(default=False, help_text="It may take the name of an allocation that is over.")
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey("tenants.User", null=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return f"join token {self.pk} ({self.node_name or 'any node'})"


class NodeEvent(models.Model):
    """An event of a node: registered, drained, resumed, rebooted, declared dead."""

    PROBLEM = "problem"

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=32)
    detail = models.CharField(max_length=300, blank=True)
    actor_name = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["node", "-at"])]

    def __str__(self) -> str:
        return f"{self.node} {self.kind}"


class TelemetryFrame(models.Model):
    """One batch of a node's samples as it sent it: rows are only added, and go when `telemetry_packing` packs a block."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+", db_index=False)
    at = models.DateTimeField(help_text="When its first sample was measured.")
    packed = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "at"], name="telemetry_frame_once")]

    def __str__(self) -> str:
        return f"{self.node} {self.at:%F %T}"


class TelemetryBlock(models.Model):
    """Ten minutes of a node's samples, packed (zlib over JSON arrays): as sent, and their means over 10 s and 5 min."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+", db_index=False)
    start_at = models.DateTimeField(db_index=True)
    packed = models.BinaryField(help_text="As sent; empty after an hour, when `tens` stand for it.")
    tens = models.BinaryField(default=bytes, help_text="Empty in blocks of a version before.")
    means = models.BinaryField(default=bytes, help_text="Empty in blocks of a version before: made from `packed`.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "start_at"], name="telemetry_block_once")]

    def __str__(self) -> str:
        return f"{self.node} {self.start_at:%F %T}"


class TelemetryMean(models.Model):
    """A day (UTC) of a node's five-minute means, packed: made from the blocks when they are old."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+", db_index=False)
    start_at = models.DateTimeField(db_index=True)
    packed = models.BinaryField(default=bytes, help_text="Means over 5 min, its attempts' included.")
    hours = models.BinaryField(
        default=bytes, help_text="Means over an hour, without attempts. Empty in days of a version before."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "start_at"], name="telemetry_mean_once")]

    def __str__(self) -> str:
        return f"{self.node} {self.start_at:%F}"
