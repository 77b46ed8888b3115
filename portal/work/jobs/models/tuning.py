"""Core tuning of attempts (algorithms, section 8): the search as it stands, and each number of cores that was measured."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.foundation.choices import TextChoices
from portal.work.jobs.models.attempts import Attempt


class CoreSearch(models.Model):
    """The search for the cores of an attempt on one node. One row an attempt; open while `done_at` is null.

    A step begins when the node says that its cores hold (`since`), is measured from `marked_at` on, and is looked at when it is
    due. While an order is open `since` is null, and nothing is due.
    """

    class Signal(TextChoices):
        UTILISATION = "utilisation", "GPU utilisation"
        THROUGHPUT = "throughput", "throughput"

    class Outcome(TextChoices):
        FOUND = "found", "found"
        LIMITED = "limited", "ended by what could be had"
        SWITCHED_OFF = "off", "switched off"
        UNANSWERED = "unanswered", "its node did not answer"
        ENDED = "ended", "the attempt ended before"

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="core_search")
    state = models.JSONField(
        help_text="What the scheduler remembers of the search: a scheduler.estimator.tuner.Tuning."
    )
    step_s = models.FloatField()
    signal = models.CharField(
        max_length=12,
        choices=Signal.choices,
        blank=True,
        help_text="What the search goes by. Empty before the first step.",
    )
    since = models.DateTimeField(null=True)
    marked_at = models.DateTimeField(null=True)
    marked_samples = models.FloatField(null=True)
    marked_seconds = models.FloatField(null=True)
    due_at = models.DateTimeField(null=True)
    ordered_at = models.DateTimeField(
        null=True, help_text="When the order was given that the node has not confirmed yet."
    )
    begun_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], condition=Q(done_at=None), name="core_search_open")]

    def __str__(self) -> str:
        return f"cores of {self.attempt}"


class CoreStep(models.Model):
    """A number of cores a GPU that an attempt held for a while, and the measurements meanwhile."""

    search = models.ForeignKey(CoreSearch, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveSmallIntegerField()
    cores_per_gpu = models.PositiveIntegerField()
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    utilisation = models.FloatField(
        null=True, help_text="The mean utilisation of its GPUs, from 0 to 1. Null: not measured."
    )
    samples_per_s = models.FloatField(null=True, help_text="The speed that the job reported. Null: it reports none.")

    class Meta:
        ordering = ["search", "number"]
        constraints = [models.UniqueConstraint(fields=["search", "number"], name="core_step_once")]

    def __str__(self) -> str:
        return f"{self.search}, step {self.number}"
