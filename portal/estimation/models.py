"""What is known of jobs' speeds (algorithms.md section 2): tables by job signature, links by GPU type, each job's progress.

A signature is one tenant's; nothing here is ever read for another tenant's job.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.estimation.queries import Queries, queries_summary
from scheduler.model.speeds import Pattern


class Signature(models.Model):
    """What makes runs comparable: a tenant's model label, or one job and its restarts."""

    name = models.CharField(max_length=200, unique=True)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey("jobs.Job", null=True, on_delete=models.CASCADE, related_name="signatures")
    used_at = models.DateTimeField(help_text="Last record.")

    class Meta:
        indexes = [models.Index(fields=["tenant", "job"])]

    def __str__(self) -> str:
        return self.name


class ThroughputCell(models.Model):
    """Per-GPU throughput (samples a second) on one node, or on any of a type: by GPUs, and by nodes where there are several."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="cells")
    node = models.ForeignKey("cluster.Node", null=True, on_delete=models.CASCADE, related_name="+")
    gpu_type = models.ForeignKey("cluster.GpuType", null=True, on_delete=models.CASCADE, related_name="+")
    gpus = models.PositiveIntegerField(null=True, help_text="In all; null: measured when only nodes were kept.")
    nodes = models.PositiveIntegerField(null=True, help_text="Over several: the distributed table; null: on one node.")
    count = models.PositiveBigIntegerField(default=0)
    mean = models.FloatField(default=0.0)
    squares = models.FloatField(default=0.0, help_text="Sum of squared deviations (Welford).")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(node=None, gpu_type__isnull=False) | Q(node__isnull=False, gpu_type=None),
                name="cell_of_a_node_or_a_type",
            ),
            models.CheckConstraint(
                condition=Q(nodes__isnull=False, nodes__gt=1) | Q(gpus__isnull=False, nodes=None),
                name="cell_aggregated_or_distributed",
            ),
            models.CheckConstraint(condition=Q(gpus=None) | Q(gpus__gt=0), name="cell_of_gpus"),
            *(
                models.UniqueConstraint(
                    fields=["signature", resource, *sizes],
                    condition=Q(**{f"{resource}__isnull": False}, gpus__isnull=by_nodes, nodes__isnull=aggregated),
                    name=f"cell_once_{resource}_{table}",
                )
                for resource in ("node", "gpu_type")
                for table, sizes, by_nodes, aggregated in (
                    ("aggregated", ["gpus"], False, True),
                    ("distributed", ["gpus", "nodes"], False, False),
                    ("by_nodes", ["nodes"], True, False),
                )
            ),
        ]

    def __str__(self) -> str:
        return f"{self.signature} on {self.node or self.gpu_type}: {self.mean:.4g}/s"


class JobProfile(models.Model):
    """A signature's time modules on a GPU type, from runs on one GPU, and its data and wait times from all runs."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="profiles")
    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    batch = models.PositiveIntegerField(default=1, help_text="Per GPU, of the time modules.")
    parameters = models.PositiveBigIntegerField(default=0)
    modules = models.PositiveBigIntegerField(default=0, help_text="Iterations behind the time modules.")
    forward_s = models.FloatField(default=0.0)
    backward_s = models.FloatField(default=0.0)
    update_s = models.FloatField(default=0.0)
    pattern = models.PositiveSmallIntegerField(
        null=True, choices=[(each.value, each.name.lower()) for each in Pattern], help_text="Recognised, not asked."
    )
    data_count = models.PositiveBigIntegerField(default=0)
    data_parts = models.JSONField(default=list, help_text="The mixture's sufficient statistics, hit before miss.")
    recent_data = models.JSONField(default=list, help_text="The latest (data, wait) seconds.")
    recent_iterations = models.JSONField(default=list, help_text="The latest rows on one GPU, for the pattern.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["signature", "gpu_type"], name="profile_once")]

    def __str__(self) -> str:
        return f"{self.signature} on {self.gpu_type}"


class SignatureUse(models.Model):
    """What a signature's attempts used on a GPU type (null: jobs without GPUs), distilled at their ends."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="uses")
    gpu_type = models.ForeignKey("cluster.GpuType", null=True, on_delete=models.CASCADE, related_name="+")
    count = models.PositiveBigIntegerField(default=0, help_text="Attempts behind it.")
    seconds = models.FloatField(default=0.0, help_text="How long the last one ran.")
    at = models.DateTimeField(help_text="When the last one ended.")
    series = models.JSONField(default=dict, help_text="The last one's measures, resampled: {measure: [value or null]}.")
    highs = models.JSONField(default=list, help_text="80th percentiles of the latest: [{measure: value}].")
    most = models.JSONField(default=dict, help_text="The highest ever: {measure: value}.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["signature", "gpu_type"], condition=Q(gpu_type__isnull=False), name="use_once_a_type"
            ),
            models.UniqueConstraint(fields=["signature"], condition=Q(gpu_type=None), name="use_once_without_gpus"),
        ]

    def __str__(self) -> str:
        return f"use of {self.signature} on {self.gpu_type or 'no GPU'}"


class AttemptDistilled(models.Model):
    """The mark that an ended attempt's telemetry has been looked at, in the transaction that distilled it."""

    attempt = models.OneToOneField("jobs.Attempt", on_delete=models.CASCADE, primary_key=True, related_name="distilled")

    def __str__(self) -> str:
        return f"attempt {self.attempt_id}"


class Link(models.Model):
    """Bandwidths of a GPU type in parameters a second: measured and how, assumed and from what, refined by running jobs."""

    gpu_type = models.OneToOneField("cluster.GpuType", on_delete=models.CASCADE, related_name="link")
    within_node = models.FloatField(null=True)
    between_nodes = models.FloatField(null=True)
    within_measured_at = models.DateTimeField(null=True)
    between_measured_at = models.DateTimeField(null=True)
    within_method = models.CharField(max_length=300, blank=True)
    between_method = models.CharField(max_length=300, blank=True)
    within_told = models.CharField(max_length=100, blank=True, help_text="What the nodes told when it was measured.")
    between_told = models.CharField(max_length=100, blank=True)
    within_assumed = models.FloatField(null=True, help_text="By what the nodes tell now.")
    between_assumed = models.FloatField(null=True)
    within_assumed_from = models.CharField(max_length=100, blank=True)
    between_assumed_from = models.CharField(max_length=100, blank=True)
    within_refined = models.FloatField(null=True, help_text="By what running jobs recorded; null: too few did.")
    between_refined = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"links of {self.gpu_type}"

    def measured(self, side: str) -> float | None:
        """Return what was measured `within` or `between`."""
        return self.within_node if side == "within" else self.between_nodes

    def base(self, side: str) -> float | None:
        """Return what was measured, else assumed; none is ever 0."""
        return self.measured(side) or getattr(self, f"{side}_assumed")

    def bandwidth(self, side: str) -> float | None:
        """Return the best figure: refined, else measured, else assumed."""
        return getattr(self, f"{side}_refined") or self.base(side)

    def is_assumed(self, side: str) -> bool:
        return self.measured(side) is None and getattr(self, f"{side}_refined") is None


class LinkVote(models.Model):
    """What a tenant's running jobs recorded of a GPU type's link: the latest figures, in parameters a second."""

    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    between = models.BooleanField(help_text="Between nodes; else within one.")
    recent = models.JSONField(default=list)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu_type", "tenant", "between"], name="link_vote_once")]

    def __str__(self) -> str:
        return f"{self.tenant} of {self.gpu_type}"


class LinkProbe(models.Model):
    """A job of Berth's own that measures a GPU type's link."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="link_probe")
    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    between = models.BooleanField()
    told = models.CharField(max_length=100, blank=True, help_text="What the nodes told when it began.")
    begun_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, help_text="Its figure was looked at.")
    problem = models.CharField(max_length=300, blank=True, help_text="Why it gave no figure.")

    def __str__(self) -> str:
        return f"probe {self.job_id} of {self.gpu_type}"


class NodeSpeed(models.Model):
    """How fast a node is against others of its type: median over jobs of entity over type, in 5 % steps."""

    node = models.OneToOneField("cluster.Node", on_delete=models.CASCADE, primary_key=True, related_name="speed")
    factor = models.FloatField()
    signatures = models.PositiveIntegerField(help_text="So many say so.")
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.node}: {self.factor:g}"


class JobProgress(models.Model):
    """How far a job says it is, over its attempts."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="progress")
    epoch = models.PositiveIntegerField(help_text="Of the attempt that said so last.")
    samples_done = models.FloatField()
    samples_total = models.FloatField(null=True)
    fraction = models.FloatField(default=0.0)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"job {self.job_id}: {self.fraction:.0%}"


class AttemptSpeed(models.Model):
    """What an attempt measured of itself, beside what was predicted before its first record."""

    attempt = models.OneToOneField("jobs.Attempt", on_delete=models.CASCADE, primary_key=True, related_name="speed")
    iterations = models.PositiveBigIntegerField(default=0)
    samples = models.FloatField(default=0.0, help_text="Over all GPUs.")
    seconds = models.FloatField(default=0.0)
    last_samples_per_s = models.FloatField(null=True)
    samples_done = models.FloatField(null=True, help_text="Of the whole job, as the attempt told last.")
    samples_saved = models.FloatField(null=True, help_text="Of them in its newest checkpoint; null: it told of none.")
    records = models.PositiveBigIntegerField(default=0)
    dropped = models.PositiveBigIntegerField(default=0, help_text="What the job wrote that was no record.")
    query_counts = models.JSONField(default=list, help_text="A server's queries by how long they took; empty: none.")
    queries_late = models.PositiveBigIntegerField(default=0, help_text="Later than its SLO.")
    predicted_samples_per_s = models.FloatField(null=True)
    predicted_source = models.CharField(max_length=16, blank=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"speed of {self.attempt_id}"

    @property
    def samples_per_s(self) -> float | None:
        """Return the attempt's mean over all GPUs; None before anything was timed."""
        return self.samples / self.seconds if self.seconds > 0 else None

    @property
    def queries(self) -> Queries | None:
        return queries_summary(self.query_counts, self.queries_late)

    @property
    def samples_lost(self) -> float | None:
        """Return what was done after the newest checkpoint, and a stop would cost; None where it is not known."""
        if self.samples_done is None or self.samples_saved is None:
            return None
        return max(0.0, self.samples_done - self.samples_saved)

    @property
    def lost_s(self) -> float | None:
        """Return the seconds that `samples_lost` took, at the attempt's mean speed."""
        lost, rate = self.samples_lost, self.samples_per_s
        return None if lost is None or not rate else lost / rate


class PartOffset(models.Model):
    """How far the records of a part have been taken: the fence that lets each in once."""

    allocation = models.OneToOneField(
        "jobs.Allocation", on_delete=models.CASCADE, primary_key=True, related_name="records_taken"
    )
    offset = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"part {self.allocation_id}@{self.offset}"


class PairSpeed(models.Model):
    """How fast a signature ran on a GPU that it shared with one other: as a share of its speed alone on such a GPU."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="pairs")
    beside = models.CharField(max_length=200, help_text="The other's signature, by name: its row is another's to lock.")
    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    count = models.PositiveBigIntegerField(default=0, help_text="So many records were compared.")
    mean = models.FloatField(default=0.0, help_text="1: as fast as alone.")
    squares = models.FloatField(default=0.0, help_text="Sum of squared deviations (Welford).")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["signature", "beside", "gpu_type"], name="pair_speed_once")]
        verbose_name = "pair of neighbours"
        verbose_name_plural = "pairs of neighbours"

    def __str__(self) -> str:
        return f"{self.signature} beside {self.beside}"
