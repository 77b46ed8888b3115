"""Visible job templates: everybody reads the operators', a tenant's members its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from portal.people.tenants.models import Reader


class TemplateQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> TemplateQuerySet:
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.filter(Q(tenant=None) | Q(tenant__memberships__user=user)).distinct()


class VersionQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> VersionQuerySet:
        if not user.is_authenticated:
            return self.none()
        if user.is_operator:
            return self
        return self.filter(Q(template__tenant=None) | Q(template__tenant__memberships__user=user)).distinct()


class SavedQuerySet(models.QuerySet):
    def visible_to(self, user: Reader) -> SavedQuerySet:
        """Return a person's own, of templates that the person still sees: nobody else's, not even for an operator."""
        if not user.is_authenticated:
            return self.none()
        own = self.filter(user=user)
        if user.is_operator:
            return own
        seen = Q(template=None) | Q(template__tenant=None) | Q(template__tenant__memberships__user=user)
        return own.filter(seen).distinct()
