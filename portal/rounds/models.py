"""Plannings: who may plan now, what was planned and why, and the knobs an operator sets."""

from django.db import models


class OperatorSetting(models.Model):
    """A knob that an operator moved away from its default; `portal.rounds.knobs` knows all of them."""

    name = models.CharField(max_length=64, unique=True)
    value = models.JSONField()
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.ForeignKey("tenants.User", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class PlanningLease(models.Model):
    """One row: who plans now. Taken and given back by conditional UPDATE, the same on SQLite and Postgres."""

    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField(null=True)
    number = models.PositiveBigIntegerField(default=0, help_text="Counts plannings; applying one checks it.")
    snapshot_at = models.DateTimeField(null=True, help_text="When the last planning read the database.")
    again = models.BooleanField(default=False, help_text="A nudge came while a planning ran.")

    def __str__(self) -> str:
        return f"planning {self.number} by {self.holder or 'nobody'}"


class Round(models.Model):
    """The plannings from one re-plan to the next."""

    number = models.PositiveBigIntegerField(unique=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    metrics = models.JSONField(default=dict, help_text="Time-weighted over its plannings; {} until it has ended.")

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["started_at"], name="round_by_time")]

    def __str__(self) -> str:
        return f"round {self.number}"


class Planning(models.Model):
    """One solve: its input's size, the solver's figures, the cluster's metrics, and every decision with its reason."""

    class Status(models.TextChoices):
        APPLIED = "applied", "Applied"
        SUPERSEDED = "superseded", "Superseded"
        FAILED = "failed", "Failed"

    number = models.PositiveBigIntegerField(unique=True)
    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="plannings")
    started_at = models.DateTimeField(db_index=True)
    status = models.CharField(max_length=16, choices=Status.choices)
    error = models.TextField(blank=True)
    policy = models.CharField(max_length=32)
    parameters = models.JSONField(default=dict)
    queue_length = models.PositiveIntegerField(default=0)
    window_jobs = models.PositiveIntegerField(default=0)
    placed = models.PositiveIntegerField(default=0)
    dropped = models.PositiveIntegerField(default=0, help_text="Placements that no longer fitted when applied.")
    load_s = models.FloatField(default=0)
    plan_s = models.FloatField(default=0)
    apply_s = models.FloatField(default=0)
    solver = models.JSONField(default=dict)
    metrics = models.JSONField(default=dict)
    decisions = models.BinaryField(default=bytes, help_text="zlib over JSON: one entry a job that waited or was placed")

    class Meta:
        ordering = ["-number"]
        # Series of figures are thinned by number: without touching the rows, whose decisions are long.
        indexes = [models.Index(fields=["status", "started_at", "number"], name="planning_series")]

    def __str__(self) -> str:
        return f"planning {self.number}"
