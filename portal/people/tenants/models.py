"""The users of the cluster: users, tenants, memberships, API tokens, and the audit trail of their changes."""

from __future__ import annotations

from typing import Protocol, Self

from django.contrib.auth.models import AbstractUser
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from portal.foundation.choices import TextChoices


class Reader(Protocol):
    """The reader: a `User`, or a visitor without a sign-in."""

    is_authenticated: bool
    is_operator: bool


class OfTenants(models.QuerySet):
    """Rows of tenants. `members`: the way from a row to the members of its tenant."""

    members = "tenant__memberships__user"

    def visible_to(self, user: Reader) -> Self:
        """Return the rows of the tenants of which `user` is a member; all of them for an operator."""
        if not user.is_authenticated:
            return self.none()
        return self if user.is_operator else self.filter(**{self.members: user})


class TenantQuerySet(OfTenants):
    members = "memberships__user"


class TokenQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> TokenQuerySet:
        """Return a user's own tokens: nobody else's, not even for an operator (the admin console revokes)."""
        return self.filter(user=user) if user.is_authenticated else self.none()

    def usable(self) -> TokenQuerySet:
        fresh = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(fresh, revoked_at=None, user__is_active=True)


NAME_RULE = RegexValidator(
    r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$",
    "Use lower-case letters, digits and hyphens, 1 to 63 of them, not beginning or ending with a hyphen.",
)


ACCOUNT_RULE = RegexValidator(
    r"^(?!root$)[a-z_][a-z0-9_-]{0,31}$",
    "Give the name of an account as the nodes know it; root is never a tenant's.",
)


class User(AbstractUser):
    """A person or a script's account. `is_staff` marks an operator: the admin console and every tenant's jobs."""

    time_zone = models.CharField(
        max_length=64, blank=True, help_text="Where its times are shown, as Europe/Berlin. Empty: its browser's."
    )

    @property
    def is_operator(self) -> bool:
        return self.is_active and self.is_staff


class Tenant(models.Model):
    """A group that shares the cluster with others. A quota of null is no quota."""

    name = models.CharField(max_length=63, unique=True, validators=[NAME_RULE])
    weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.001)],
        help_text="How large its share is against the other tenants': 2 is twice as large as 1.",
    )
    gpu_quota = models.PositiveIntegerField(
        null=True, blank=True, help_text="The most GPUs that its jobs may hold at one time; empty: no limit."
    )
    core_quota = models.PositiveIntegerField(
        null=True, blank=True, help_text="The most CPU cores that its jobs may hold at one time; empty: no limit."
    )
    queued_jobs_quota = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="The most jobs that may wait at one time; a further one is refused. Empty: no limit.",
    )
    artefact_quota_gib = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="GiB that its artefacts may take; empty: the operator's figure for all (BERTH_ARTEFACT_QUOTA_GIB).",
    )
    artefact_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days after a job's end that its artefacts are kept, 0 for ever; empty: BERTH_ARTEFACT_DAYS.",
    )
    unix_account = models.CharField(
        max_length=32,
        null=True,
        blank=True,
        unique=True,
        validators=[ACCOUNT_RULE],
        help_text="Its jobs' account on nodes that have it; elsewhere, or empty: a number of its own.",
    )
    images = models.TextField(
        blank=True,
        max_length=4000,
        help_text="Container images that its jobs may use, one a line, * for any characters: "
        "docker.io/pytorch/*. Empty: none.",
    )
    is_active = models.BooleanField(default=True, help_text="An inactive tenant submits nothing new.")
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="tenants")

    objects = TenantQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=models.Q(weight__gt=0), name="tenant_weight_positive"),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    class Role(TextChoices):
        VIEWER = "viewer", "Viewer"
        MEMBER = "member", "Member"
        MANAGER = "manager", "Manager"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "tenant"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant} ({self.role})"


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is kept; the secret is shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    tenant = models.ForeignKey(
        Tenant,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        help_text="The one tenant that the token may act for; empty: all tenants of its user.",
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="The first characters of the secret, to tell tokens apart.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = TokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class AuditEvent(models.Model):
    """One changing action: its actor, its object, and the details. Rows are only ever added."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    actor_name = models.CharField(max_length=150, help_text="As it was then; 'berth' for the system itself.")
    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.CharField(max_length=64)
    target = models.CharField(max_length=100, db_index=True, help_text="kind:id, as in job:42")
    detail = models.JSONField(default=dict)

    objects = OfTenants.as_manager()

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.action} {self.target}"
