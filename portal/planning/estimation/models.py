"""Known speeds of jobs (algorithms.md section 2): tables by job signature, links by GPU type, each job's progress.

A signature is one tenant's; nothing here is ever read for another tenant's job.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.planning.estimation.queries import Queries, queries_summary
from scheduler.intake.validation import RATE_LEAST
from scheduler.pattern import Pattern


class Signature(models.Model):
    """The name under which runs are compared: a tenant's model label, or one job and its restarts."""

    name = models.CharField(max_length=200, unique=True)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey("jobs.Job", null=True, on_delete=models.CASCADE, related_name="signatures")
    used_at = models.DateTimeField(help_text="When the last record came.")

    class Meta:
        indexes = [models.Index(fields=["tenant", "job"])]

    def __str__(self) -> str:
        return self.name


class ThroughputCell(models.Model):
    """Per-GPU throughput (samples a second) on one node or bay, or on any of a type: by GPUs, and by nodes where there are
    several.
    """

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="cells")
    node = models.ForeignKey("cluster.Node", null=True, on_delete=models.CASCADE, related_name="+")
    bay = models.PositiveIntegerField(
        default=0, help_text="Of a node with several types of GPUs: the type's id. 0: its own."
    )
    gpu_type = models.ForeignKey("cluster.GpuType", null=True, on_delete=models.CASCADE, related_name="+")
    gpus = models.PositiveIntegerField(
        null=True,
        help_text="The number of GPUs on all nodes together. Null: an old row, which knows only the number of nodes.",
    )
    nodes = models.PositiveIntegerField(
        null=True, help_text="The number of nodes, where there were several. Null: it ran on one node."
    )
    count = models.PositiveBigIntegerField(default=0)
    mean = models.FloatField(default=0.0)
    squares = models.FloatField(
        default=0.0, help_text="The sum of squared differences from the mean (Welford's method)."
    )

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
                    fields=["signature", *resources, *sizes],
                    condition=Q(**{f"{resources[0]}__isnull": False}, gpus__isnull=by_nodes, nodes__isnull=aggregated),
                    name=f"cell_once_{resources[0]}_{table}",
                )
                for resources in (["node", "bay"], ["gpu_type"])
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
    batch = models.PositiveIntegerField(
        default=1, help_text="The batch size on each GPU at which the times below were measured."
    )
    parameters = models.PositiveBigIntegerField(default=0)
    modules = models.PositiveBigIntegerField(default=0, help_text="How many iterations the times below come from.")
    forward_s = models.FloatField(default=0.0)
    backward_s = models.FloatField(default=0.0)
    update_s = models.FloatField(default=0.0)
    pattern = models.PositiveSmallIntegerField(
        null=True,
        choices=[(each.value, each.name.lower()) for each in Pattern],
        help_text="How the job loads its data, as its iterations show it. Nobody was asked.",
    )
    data_count = models.PositiveBigIntegerField(default=0)
    data_parts = models.JSONField(
        default=list,
        help_text="Sums that describe the times of loading data: first those from the cache, then the others.",
    )
    recent_data = models.JSONField(
        default=list,
        help_text="The latest pairs of seconds: for loading data, and for waiting for the other processes.",
    )
    recent_iterations = models.JSONField(
        default=list, help_text="The latest iterations on one GPU. The pattern is recognised from them."
    )
    rest_sigma_s = models.FloatField(
        null=True, help_text="By how many seconds the computing of a step on one GPU varies. Null: not known yet."
    )
    wait_gpus = models.FloatField(
        default=0.0, help_text="How many processes, on average, the runs had in which one waited for the others."
    )
    exposed_s = models.FloatField(
        default=0.0, help_text="Seconds of communication that made steps longer, in runs that recorded communication."
    )
    exchange_s = models.FloatField(default=0.0, help_text="Seconds of communication in those runs, in all.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["signature", "gpu_type"], name="profile_once")]

    def __str__(self) -> str:
        return f"{self.signature} on {self.gpu_type}"


class SignatureUse(models.Model):
    """The use of a GPU type (null: jobs without GPUs) by a signature's attempts, distilled at their ends."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="uses")
    gpu_type = models.ForeignKey("cluster.GpuType", null=True, on_delete=models.CASCADE, related_name="+")
    count = models.PositiveBigIntegerField(default=0, help_text="How many attempts it comes from.")
    seconds = models.FloatField(default=0.0, help_text="How long the last attempt ran.")
    at = models.DateTimeField(help_text="When the last attempt ended.")
    series = models.JSONField(
        default=dict, help_text="What the last attempt used over time: {measure: [value or null]}."
    )
    highs = models.JSONField(
        default=list, help_text="The 80th percentile of each measure, for the latest attempts: [{measure: value}]."
    )
    most = models.JSONField(default=dict, help_text="The highest value ever of each measure: {measure: value}.")

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


class PairSpeed(models.Model):
    """How fast a signature ran on a GPU that it shared with one other: as a share of its own speed on such a GPU."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="pairs")
    beside = models.CharField(
        max_length=200,
        help_text="The name of the other job's signature. It is a name so that nobody locks the other's row.",
    )
    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    count = models.PositiveBigIntegerField(default=0, help_text="How many records were compared.")
    mean = models.FloatField(
        default=0.0, help_text="Its speed beside the other, as a part of its speed alone. 1: as fast as alone."
    )
    squares = models.FloatField(
        default=0.0, help_text="The sum of squared differences from the mean (Welford's method)."
    )
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["signature", "beside", "gpu_type"], name="pair_speed_once")]
        verbose_name = "pair of neighbours"
        verbose_name_plural = "pairs of neighbours"

    def __str__(self) -> str:
        return f"{self.signature} beside {self.beside}"


class Link(models.Model):
    """Bandwidths of a GPU type in parameters a second: measured and how, assumed and from what, refined by running jobs."""

    gpu_type = models.OneToOneField("cluster.GpuType", on_delete=models.CASCADE, related_name="link")
    within_node = models.FloatField(null=True)
    between_nodes = models.FloatField(null=True)
    within_measured_at = models.DateTimeField(null=True)
    between_measured_at = models.DateTimeField(null=True)
    within_method = models.CharField(max_length=300, blank=True)
    between_method = models.CharField(max_length=300, blank=True)
    within_told = models.CharField(
        max_length=100, blank=True, help_text="What the nodes said of their links when it was measured."
    )
    between_told = models.CharField(max_length=100, blank=True)
    within_assumed = models.FloatField(
        null=True, help_text="The figure assumed from what the nodes say of their links now."
    )
    between_assumed = models.FloatField(null=True)
    within_assumed_from = models.CharField(max_length=100, blank=True)
    between_assumed_from = models.CharField(max_length=100, blank=True)
    within_refined = models.FloatField(
        null=True, help_text="The figure that the records of running jobs give. Null: too few jobs recorded it."
    )
    between_refined = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"links of {self.gpu_type}"

    def measured(self, side: str) -> float | None:
        """Return the figure measured `within` or `between`."""
        return self.within_node if side == "within" else self.between_nodes

    def base(self, side: str) -> float | None:
        """Return the measured figure, else the assumed one; none is ever 0."""
        return self.measured(side) or getattr(self, f"{side}_assumed")

    def bandwidth(self, side: str) -> float | None:
        """Return the best figure: refined, else measured, else assumed."""
        return getattr(self, f"{side}_refined") or self.base(side)

    def is_assumed(self, side: str) -> bool:
        return self.measured(side) is None and getattr(self, f"{side}_refined") is None


class LinkVote(models.Model):
    """Figures that a tenant's running jobs recorded of a GPU type's link: the latest, in parameters a second."""

    gpu_type = models.ForeignKey("cluster.GpuType", on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    between = models.BooleanField(help_text="Whether it is the link between nodes. Else it is the one within a node.")
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
    told = models.CharField(max_length=100, blank=True, help_text="What the nodes said of their links when it began.")
    begun_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, help_text="When its result was read.")
    problem = models.CharField(max_length=300, blank=True, help_text="Why it gave no result.")

    def __str__(self) -> str:
        return f"probe {self.job_id} of {self.gpu_type}"


class NodeSpeed(models.Model):
    """How fast a node is against others of its type: median over jobs of entity over type, in 5 % steps."""

    node = models.OneToOneField("cluster.Node", on_delete=models.CASCADE, primary_key=True, related_name="speed")
    factor = models.FloatField()
    signatures = models.PositiveIntegerField(help_text="How many signatures this comes from.")
    measured_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.node}: {self.factor:g}"


SHORTEST_S = 0.5
"""What took less time says how far a job is, not how fast it runs."""
FASTEST = 1e12


def rate_of(samples: float, seconds: float) -> float | None:
    """Return samples a second; None where they tell no speed, or one that no job can have."""
    if seconds < SHORTEST_S:
        return None
    rate = samples / seconds
    return rate if samples == 0 or RATE_LEAST <= rate < FASTEST else None


class JobProgress(models.Model):
    """How far a job says it is, over its attempts."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="progress")
    epoch = models.PositiveIntegerField(help_text="The number of the attempt that reported last.")
    samples_done = models.FloatField()
    samples_total = models.FloatField(null=True)
    fraction = models.FloatField(default=0.0)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"job {self.job_id}: {self.fraction:.0%}"


class AttemptSpeed(models.Model):
    """An attempt's own measurement, beside the prediction before its first record."""

    attempt = models.OneToOneField("jobs.Attempt", on_delete=models.CASCADE, primary_key=True, related_name="speed")
    iterations = models.PositiveBigIntegerField(default=0)
    samples = models.FloatField(default=0.0, help_text="Samples of all its GPUs together.")
    seconds = models.FloatField(default=0.0)
    last_samples_per_s = models.FloatField(null=True)
    samples_done = models.FloatField(
        null=True, help_text="How many samples of the whole job are done, as the attempt last reported."
    )
    samples_saved = models.FloatField(
        null=True, help_text="How many of them its newest checkpoint holds. Null: it reported no checkpoint."
    )
    records = models.PositiveBigIntegerField(default=0)
    dropped = models.PositiveBigIntegerField(
        default=0, help_text="How many things that the job wrote were no valid records."
    )
    query_counts = models.JSONField(
        default=list, help_text="How many of a server's queries took how long. Empty: it reported none."
    )
    queries_late = models.PositiveBigIntegerField(
        default=0, help_text="How many queries were answered later than its target (SLO)."
    )
    predicted_samples_per_s = models.FloatField(null=True)
    predicted_source = models.CharField(max_length=16, blank=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"speed of {self.attempt_id}"

    @property
    def samples_per_s(self) -> float | None:
        """Return the attempt's mean over all GPUs; None before anything was timed."""
        return rate_of(self.samples, self.seconds)

    @property
    def queries(self) -> Queries | None:
        return queries_summary(self.query_counts, self.queries_late)

    @property
    def samples_lost(self) -> float | None:
        """Return the work since the newest checkpoint, which a stop would cost; None where it is not known."""
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
