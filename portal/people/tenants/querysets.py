"""Tenancy lives here: the rows that a user may see."""

from __future__ import annotations

from typing import Protocol

from django.db import models
from django.db.models import Q
from django.utils import timezone


class Reader(Protocol):
    """The reader: a `User`, or a visitor without a sign-in."""

    is_authenticated: bool
    is_operator: bool


class TenantQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> TenantQuerySet:
        """Return the tenants of which `user` is a member; all of them for an operator."""
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.filter(memberships__user=user).distinct()


class TokenQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> TokenQuerySet:
        """Return a user's own tokens: nobody else's, not even for an operator (the admin console revokes)."""
        return self.filter(user=user) if user.is_authenticated else self.none()

    def usable(self) -> TokenQuerySet:
        fresh = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(fresh, revoked_at=None, user__is_active=True)


class AuditEventQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> AuditEventQuerySet:
        """Return the trail of the tenants a user belongs to; all of it for an operator."""
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.filter(tenant__memberships__user=user).distinct()
