"""Watches of running attempts: memory traffic (algorithms, section 9), idle time, and core tuning (section 8)."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.foundation.choices import TextChoices
from portal.work.jobs.models.attempts import Attempt


class MemoryWatch(models.Model):
    """A node whose memory is pressed, or where a job is slowed. One row a node; it goes when both are over.

    A period is measured from `since` on and looked at when it is due. While a node has not acknowledged an order, `since` is
    null: the measurements meanwhile say nothing.
    """

    node = models.OneToOneField("cluster.Node", on_delete=models.CASCADE, related_name="memory_watch")
    state = models.JSONField(help_text="What the scheduler remembers of this node: a scheduler.contention.Watch.")
    since = models.DateTimeField(null=True)
    due_at = models.DateTimeField()
    ordered_at = models.DateTimeField(
        null=True, help_text="When the order was given that the node has not confirmed yet."
    )
    begun_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="memory_watch_due")]

    def __str__(self) -> str:
        return f"memory of {self.node}"


class Slowing(models.Model):
    """One time that a CPU job was held back. Open while `to_at` is null."""

    class Cause(TextChoices):
        HURT = "hurt", "a training job beside it fell back"
        TRIAL = "trial", "to see whether a training job beside it gets faster"

    class Outcome(TextChoices):
        HARMLESS = "harmless", "it slowed nobody"
        GONE = "gone", "the training job has left the node"
        CALM = "calm", "there was room for its traffic again"
        OFF = "off", "switched off"
        ENDED = "ended", "the slowed job has ended"

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="slowings")
    node = models.ForeignKey("cluster.Node", on_delete=models.CASCADE, related_name="slowings")
    helped = models.ForeignKey(Attempt, null=True, on_delete=models.SET_NULL, related_name="relieved_by")
    means = models.CharField(max_length=8, help_text="How it is held back: the name of one of its node's throttles.")
    cause = models.CharField(max_length=8, choices=Cause.choices)
    share = models.FloatField(help_text="The part of what it had before that it still has.")
    drew = models.FloatField(help_text="The part of the node's memory bandwidth that it took when it was slowed.")
    lost = models.FloatField(
        null=True, help_text="The part of its speed that the training job had lost. Null: not known."
    )
    cores_before = models.PositiveIntegerField()
    cores_owed = models.PositiveIntegerField(null=True, help_text="How many cores it gets back as they become idle.")
    from_at = models.DateTimeField()
    changed_at = models.DateTimeField(help_text="When the last order was given.")
    to_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=8, choices=Outcome.choices, blank=True)

    class Meta:
        ordering = ["-from_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["attempt"], condition=Q(to_at=None), name="one_open_slowing_an_attempt")
        ]
        indexes = [
            models.Index(fields=["node", "-from_at"], name="slowing_by_node"),
            models.Index(fields=["attempt"], condition=Q(cores_owed__isnull=False), name="slowing_owed"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} slowed to {self.share:g}"


class IdleWatch(models.Model):
    """The watch of an attempt whose job has an idle time-out. A use sets all to zero and `uses` one up."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="idle_watch")
    frame = models.BigIntegerField(help_text="The last row of telemetry that was looked at.")
    parts = models.JSONField(default=dict, help_text="Seconds for which each node saw it idle, by the node's id.")
    idle_s = models.FloatField(default=0, help_text="The least of them: so long it was idle everywhere.")
    warned_idle_s = models.FloatField(null=True, help_text="`idle_s` when people were warned. Null: they were not.")
    uses = models.PositiveBigIntegerField(default=0)
    used_at = models.DateTimeField(help_text="When it was last used, or began.")
    used_by = models.CharField(max_length=16, blank=True, help_text="What that was. Blank: it began then.")

    def __str__(self) -> str:
        return f"{self.attempt}: idle for {self.idle_s:g} s"


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
