"""Running attempts' own reports: how far the job is, how fast it runs, and how much of it was read."""

from __future__ import annotations

from django.db import models

from portal.planning.estimation.queries import Queries, queries_summary
from scheduler.intake.validation import RATE_LEAST

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
