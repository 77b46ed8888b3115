"""The laboratory: traces that tenants brought or took from the cluster's history, and simulations of them."""

from django.db import models
from django.db.models import Q

from portal.foundation.choices import TextChoices
from portal.pages.laboratory.querysets import OwnedQuerySet


class SharedWith(TextChoices):
    OWNER = "owner", "nobody"
    TENANT = "tenant", "the tenant"
    OPERATORS = "operators", "operators"


class Owned(models.Model):
    """A row that belongs to one user in one tenant, with its other readers.

    `TELLS_OF_ALL`: the field that says that it tells of other tenants' jobs too.
    """

    TELLS_OF_ALL = ""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    shared_with = models.CharField(max_length=16, choices=SharedWith.choices, default=SharedWith.OWNER)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class LabTrace(Owned):
    """A trace's text, compressed, as it was uploaded or as the cluster's history said when it was taken."""

    TELLS_OF_ALL = "all_tenants"

    class Origin(TextChoices):
        UPLOAD = "upload", "uploaded"
        HISTORY = "history", "the cluster's history"

    origin = models.CharField(max_length=16, choices=Origin.choices)
    all_tenants = models.BooleanField(
        default=False, help_text="An operator took it, so it holds the jobs of every tenant."
    )
    format = models.CharField(max_length=32)
    content = models.BinaryField(help_text="The trace's text, compressed by zlib.")
    size_bytes = models.PositiveBigIntegerField(help_text="The size of the text before it was compressed.")
    jobs = models.PositiveIntegerField()
    span_s = models.FloatField(help_text="Seconds from the first arrival to the last.")

    class Meta:
        ordering = ["-pk"]


class Simulation(Owned):
    """One question to the simulator: jobs, cluster, policies and knobs; then how far it is, and its answer."""

    TELLS_OF_ALL = "trace__all_tenants"

    class State(TextChoices):
        QUEUED = "QUEUED", "Queued"
        RUNNING = "RUNNING", "Running"
        COMPLETED = "COMPLETED", "Completed"
        FAILED = "FAILED", "Failed"
        CANCELLED = "CANCELLED", "Cancelled"

    trace = models.ForeignKey(LabTrace, null=True, on_delete=models.PROTECT, related_name="simulations")
    generator = models.CharField(
        max_length=32, blank=True, help_text="The generator of its jobs, where it has no trace."
    )
    generated_jobs = models.PositiveIntegerField(null=True)
    cluster = models.TextField(
        blank=True, help_text="The description of the cluster in YAML. Empty: the generator's own cluster."
    )
    cluster_name = models.CharField(max_length=100)
    policies = models.JSONField(help_text="The names of the policies, in the order of the report.")
    knobs = models.JSONField(default=dict, help_text="The knobs that differ from their defaults.")
    seed = models.PositiveIntegerField(default=1)
    until_h = models.FloatField(
        null=True, help_text="Simulated hours after which it is cut off. Null: it runs to the end."
    )

    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    progress = models.JSONField(default=dict, help_text="For each policy, the part of its jobs that have ended.")
    holder = models.CharField(max_length=100, blank=True, help_text="The process that works on it now.")
    heartbeat_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    figures = models.JSONField(default=dict, help_text="For each policy, its figures.")
    turns = models.JSONField(
        default=dict, help_text="The price of turns by shares, from one more run without them. Empty: not known."
    )
    curves = models.BinaryField(
        default=bytes, help_text="For each policy, what the plots show: JSON, compressed by zlib."
    )

    request_key = models.CharField(
        max_length=255, blank=True, help_text="The Idempotency-Key of the request that made it."
    )
    request_digest = models.CharField(max_length=64, blank=True, help_text="The SHA-256 of the body of that request.")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(trace=None, generated_jobs__isnull=False) & ~Q(generator="")
                | Q(trace__isnull=False, generator="", generated_jobs=None),
                name="simulation_of_a_trace_or_a_generator",
            ),
            models.UniqueConstraint(
                fields=["owner", "request_key"], condition=~Q(request_key=""), name="simulation_request_once"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], name="simulation_open", condition=Q(state__in=["QUEUED", "RUNNING"])),
        ]

    @property
    def is_open(self) -> bool:
        return self.state in {self.State.QUEUED, self.State.RUNNING}
