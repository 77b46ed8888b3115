"""Tables by job signature: throughput, times of the modules, use, and neighbours on a GPU."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

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
    """Per-GPU throughput (samples a second) on one node, or on any of a type: by GPUs, and by nodes where there are several."""

    signature = models.ForeignKey(Signature, on_delete=models.CASCADE, related_name="cells")
    node = models.ForeignKey("cluster.Node", null=True, on_delete=models.CASCADE, related_name="+")
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
