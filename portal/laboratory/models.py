"""The laboratory: traces that tenants brought or took from the cluster's history, and simulations of them."""

from django.db import models
from django.db.models import Q

from portal.choices import TextChoices
from portal.laboratory.querysets import OwnedQuerySet


class SharedWith(TextChoices):
    OWNER = "owner", "nobody"
    TENANT = "tenant", "the tenant"
    OPERATORS = "operators", "operators"


class Owned(models.Model):
    """A row that belongs to one user in one tenant, and who else may see it.

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
    all_tenants = models.BooleanField(default=False, help_text="An operator took it: it tells of every tenant's jobs.")
    format = models.CharField(max_length=32)
    content = models.BinaryField(help_text="The text, compressed by zlib.")
    size_bytes = models.PositiveBigIntegerField(help_text="Of the text.")
    jobs = models.PositiveIntegerField()
    span_s = models.FloatField(help_text="From the first arrival to the last.")

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
    generator = models.CharField(max_length=32, blank=True, help_text="Set where there is no trace.")
    generated_jobs = models.PositiveIntegerField(null=True)
    cluster = models.TextField(blank=True, help_text="The cluster's description, YAML; empty = the generator's own.")
    cluster_name = models.CharField(max_length=100)
    policies = models.JSONField(help_text="Names, in the order of the report.")
    knobs = models.JSONField(default=dict, help_text="Those away from their default.")
    seed = models.PositiveIntegerField(default=1)
    until_h = models.FloatField(null=True, help_text="Virtual hours after which it is cut off; null = to the end.")

    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    progress = models.JSONField(default=dict, help_text="Policy -> fraction of its jobs that ended.")
    holder = models.CharField(max_length=100, blank=True, help_text="The process that works on it.")
    heartbeat_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    figures = models.JSONField(default=dict, help_text="Policy -> its figures.")
    curves = models.BinaryField(default=bytes, help_text="Policy -> what the plots show: JSON, compressed by zlib.")

    request_key = models.CharField(max_length=255, blank=True, help_text="The Idempotency-Key it was asked for with.")
    request_digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of that request's body.")

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
