"""Clusters that another scheduler runs: an engine for each attached partition, and the orders that its bridge carries there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.utils import timezone

from portal.foundation.choices import TextChoices
from workers.protocol.engine import CAPABILITIES, MOST_REASON

if TYPE_CHECKING:
    from datetime import datetime

SILENT_AFTER = timedelta(seconds=60)
"""A bridge without contact for longer is shown as away; it calls each 10 s at least."""


STANDINGS = ("attached", "silent", "detached")
"""Of a partition: both its bridge and its scheduler answer, one of them does not, or an operator has let it go."""


class Engine(models.Model):
    """A partition, as its bridge describes it."""

    class Form(TextChoices):
        PILOT = "pilot", "Pilots"
        ATTEMPT = "attempt", "Attempt jobs"

    name = models.CharField(max_length=100, unique=True, help_text="The cluster and the partition: atlas/gpu-long.")
    kind = models.CharField(max_length=16)
    cluster = models.CharField(max_length=100)
    partition = models.CharField(max_length=100)
    form = models.CharField(max_length=16, choices=Form.choices)
    version = models.CharField(max_length=32, blank=True)
    gpus_max = models.PositiveIntegerField(help_text="The most GPUs that pilots hold at once.")
    gpus_per_pilot = models.PositiveIntegerField(help_text="0: whole nodes.")
    limit_s = models.PositiveIntegerField(help_text="The time limit of a pilot.")
    idle_s = models.PositiveIntegerField(help_text="A pilot without a job is given back after it.")
    tenant = models.ForeignKey("tenants.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    token_digest = models.CharField(max_length=64, unique=True, editable=False)
    token_revoked_at = models.DateTimeField(null=True, blank=True)
    detached_at = models.DateTimeField(
        null=True, blank=True, help_text="No more is asked for; idle pilots are given back."
    )
    joined_by = models.ForeignKey("tenants.User", null=True, on_delete=models.SET_NULL, related_name="+")
    registered_at = models.DateTimeField(auto_now_add=True)
    last_contact_at = models.DateTimeField(null=True, blank=True, help_text="Of its bridge.")
    away_since = models.DateTimeField(
        null=True, blank=True, help_text="The other scheduler does not answer its bridge."
    )
    away_reason = models.CharField(max_length=MOST_REASON, blank=True)
    refused_at = models.DateTimeField(null=True, blank=True, help_text="An order was refused, or failed, last.")
    refused_reason = models.CharField(max_length=MOST_REASON, blank=True)
    nodes = models.JSONField(default=list, help_text="The partition's nodes, as the bridge saw them.")
    nodes_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def capabilities(self) -> frozenset[str]:
        return CAPABILITIES[self.form]

    @property
    def scheduler(self) -> str:
        """The other scheduler, as pages call it."""
        return self.kind.capitalize()

    @property
    def standing(self) -> str:
        """Return one word of STANDINGS."""
        if self.detached_at is not None:
            return "detached"
        return "attached" if self.silent_since is None else "silent"

    @property
    def silent_since(self) -> datetime | None:
        """Return since when nothing is heard: of the bridge, or of the other scheduler; None while both answer."""
        if self.last_contact_at is None or self.last_contact_at < timezone.now() - SILENT_AFTER:
            return self.last_contact_at or self.registered_at
        return self.away_since


class EngineJobQuerySet(models.QuerySet):
    def open(self) -> EngineJobQuerySet:
        """Those that have not ended, as far as anybody knows."""
        return self.filter(ended_at=None)


class EngineJob(models.Model):
    """An order, known by its name alone: the other scheduler's number may be given twice.

    An order that the other scheduler does not list has not ended: `seen_at` stops to move, and its node decides.
    """

    class State(TextChoices):
        WANTED = "wanted", "Wanted"
        SENT = "sent", "Sent"  # handed to the bridge; it may or may not have been submitted
        PENDING = "pending", "Waiting"
        RUNNING = "running", "Running"
        ENDED = "ended", "Ended"

    engine = models.ForeignKey(Engine, on_delete=models.CASCADE, related_name="jobs")
    name = models.CharField(max_length=64, unique=True)
    ticket = models.CharField(max_length=64, blank=True, help_text="The other scheduler's number.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.WANTED)
    reason = models.CharField(max_length=MOST_REASON, blank=True, help_text="The other scheduler's word.")
    gpus = models.PositiveIntegerField(help_text="Those that it is to hold; of a whole node those that are expected.")
    host = models.CharField(max_length=100, blank=True, help_text="The other scheduler's name of the node.")
    node = models.ForeignKey("cluster.Node", null=True, on_delete=models.SET_NULL, related_name="engine_jobs")
    join_token = models.ForeignKey("cluster.JoinToken", null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True, help_text="The other scheduler listed it last.")
    since = models.DateTimeField(null=True, help_text="It runs since then, or is expected to start.")
    ends_at = models.DateTimeField(null=True)
    idle_since = models.DateTimeField(null=True, help_text="Nothing runs in it since then.")
    stop_at = models.DateTimeField(null=True, help_text="It is to end since then.")
    ended_at = models.DateTimeField(null=True, db_index=True)

    objects = EngineJobQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["engine", "ended_at"], name="engine_job_open")]

    def __str__(self) -> str:
        return self.name

    @property
    def holds(self) -> bool:
        """Whether the other scheduler has given it its GPUs."""
        return self.state == self.State.RUNNING
