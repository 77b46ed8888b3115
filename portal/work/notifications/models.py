"""People's choices of messages and their targets, and the outbox: happenings and messages."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.foundation.choices import TextChoices


class Wishes(models.Model):
    """A person's choice of events by mail. Without a row: nothing."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="notification_wishes"
    )
    mail = models.JSONField(default=list, help_text="Names of events (`portal.work.notifications.words`).")
    waits_h = models.FloatField(
        default=24, help_text="`waits`: a job that could start waits longer than this, in hours."
    )

    def __str__(self) -> str:
        return f"wishes of {self.user_id}"


class Hook(models.Model):
    """A webhook: of one person, about that person's jobs, or of a tenant, about all of its jobs."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="hooks")
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.CASCADE, related_name="hooks")
    url = models.CharField(max_length=500)
    secret = models.CharField(max_length=300, help_text="Sealed: what its messages are signed with.")
    events = models.JSONField(default=list)
    waits_h = models.FloatField(default=24)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    rests_until = models.DateTimeField(null=True, help_text="Nothing is sent before: it failed.")
    last_answer = models.CharField(max_length=100, blank=True)
    last_at = models.DateTimeField(null=True)
    is_active = models.BooleanField(default=True, help_text="False: it failed too often in a row.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, tenant__isnull=False) | Q(user__isnull=False, tenant=None), name="hook_of_one"
            )
        ]

    def __str__(self) -> str:
        return f"webhook {self.pk}"


class Announcement(models.Model):
    """One line of an operator above everybody's pages, until it is ended or the next one is made."""

    text = models.CharField(max_length=200, help_text="One line, shown above everybody's pages, as from now.")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.text


class Happening(models.Model):
    """A job moved; written in the move's transaction, and deleted once its receivers are worked out."""

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+", db_index=False)
    what = models.CharField(max_length=8)
    mark = models.CharField(max_length=32, help_text="Tells it from the same of the job's other attempts.")
    at = models.DateTimeField()
    detail = models.CharField(max_length=300, blank=True, help_text="Blank: the job's row says it.")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.what} of job {self.job_id}"


class LogTail(models.Model):
    """The line that a part's stream is in, of a job that names `log_matches`: its pieces may end anywhere."""

    attempt = models.ForeignKey("jobs.Attempt", on_delete=models.CASCADE, related_name="+", db_index=False)
    rank = models.PositiveSmallIntegerField()
    stream = models.CharField(max_length=6)
    text = models.BinaryField(help_text="How the line begins, or the last 4 KiB of that.")
    had = models.JSONField(default=list, help_text="The places of patterns that were found in it already.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "rank", "stream"], name="log_tail_once")]

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.rank} {self.stream}"


class LogMatch(models.Model):
    """Hits of a pattern in a job's log: how many, how many of them were sent, and when the rest is due."""

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+", db_index=False)
    place = models.PositiveSmallIntegerField(help_text="The pattern's place in the job's `log_matches`.")
    lines = models.PositiveBigIntegerField(default=0)
    untold = models.PositiveBigIntegerField(default=0, help_text="Lines since the last message.")
    line = models.CharField(max_length=200, help_text="The last such line.")
    messages = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True, help_text="Null: nothing waits to be told, or no more will be.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "place"], name="log_match_once")]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="log_match_due"),
        ]

    def __str__(self) -> str:
        return f"{self.lines} lines of job {self.job_id}"


class Message(models.Model):
    """One mail, or one call of a webhook. Sent at least once; its id is in the message, so that a second is recognised."""

    class State(TextChoices):
        WAITING = "waiting", "waiting"
        SENT = "sent", "sent"
        GIVEN_UP = "given-up", "given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    hook = models.ForeignKey(Hook, null=True, on_delete=models.CASCADE, related_name="+")
    made_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True, help_text="Null: it is sent, or given up.")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="message_due"),
            models.Index(fields=["ended_at"], condition=Q(ended_at__isnull=False), name="message_by_end"),
        ]

    def __str__(self) -> str:
        return f"message {self.pk}"


class Item(models.Model):
    """One thing to tell one receiver: by mail to `user`, or by `hook`. Without a message it waits to be put into one."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    hook = models.ForeignKey(Hook, null=True, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+", db_index=False)
    what = models.CharField(max_length=8)
    mark = models.CharField(max_length=32)
    at = models.DateTimeField()
    detail = models.CharField(max_length=300, blank=True)
    message = models.ForeignKey(Message, null=True, on_delete=models.CASCADE, related_name="items")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "what", "mark", "user"], condition=Q(hook=None), name="item_once_by_mail"
            ),
            models.UniqueConstraint(
                fields=["job", "what", "mark", "hook"], condition=Q(user=None), name="item_once_by_hook"
            ),
        ]
        indexes = [models.Index(fields=["user", "hook"], condition=Q(message=None), name="item_to_be_put")]

    def __str__(self) -> str:
        return f"{self.what} of job {self.job_id}"


class SendingLease(models.Model):
    """The one process that sends now."""

    name = models.CharField(max_length=16, primary_key=True)
    holder = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name
