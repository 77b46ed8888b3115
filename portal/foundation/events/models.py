"""The outbox: messages to other processes about a change, written in the change's own transaction."""

from django.db import models

from portal.foundation.choices import TextChoices


class OutboxMessage(models.Model):
    """A nudge not yet sent. A row is deleted once sent; sending it twice does no harm."""

    class Topic(TextChoices):
        PLAN = "plan", "a planning is due"
        WAKE = "wake", "a node's wanted list changed"
        EVENT = "event", "pages should refetch"

    topic = models.CharField(max_length=8, choices=Topic.choices)
    stream = models.CharField(max_length=64, blank=True, help_text="node:7 for a wake; cluster or job:42 for an event")
    payload = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.topic} {self.stream}"
