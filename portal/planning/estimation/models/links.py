"""Links by GPU type: measured, assumed and refined; and how fast a node is against others of its type."""

from __future__ import annotations

from django.db import models


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
