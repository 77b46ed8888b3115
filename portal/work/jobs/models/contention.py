"""Memory traffic (algorithms, section 9): a node's state while it is watched, and when a CPU job was slowed."""

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
