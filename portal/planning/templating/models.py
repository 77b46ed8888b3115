"""Job templates, their versions, and the values that people save under a name of their own.

Everybody reads the operators' templates, a tenant's members its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
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


class JobTemplate(models.Model):
    """A job template. `tenant` null: the operators', for all to read. Title and text are those of the last version."""

    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.CASCADE, related_name="job_templates")
    name = models.CharField(max_length=63)
    title = models.CharField(max_length=100)
    about = models.CharField(max_length=1000, blank=True)
    version = models.PositiveIntegerField(default=0, help_text="The number of the last version.")
    changed_at = models.DateTimeField()

    objects = TemplateQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="template_once_a_tenant"),
            models.UniqueConstraint(fields=["name"], condition=Q(tenant=None), name="template_once_of_operators"),
        ]

    def __str__(self) -> str:
        return self.name


class TemplateVersion(models.Model):
    """A template from one change to the next. Rows are never changed."""

    template = models.ForeignKey(JobTemplate, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    document = models.JSONField(help_text="Name, title, text, parameters and the job's fields.")
    size_bytes = models.PositiveIntegerField()
    made_by = models.CharField(max_length=150, help_text="Who made it, as the person was called then.")
    made_at = models.DateTimeField()

    objects = VersionQuerySet.as_manager()

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="template_version_once")]

    def __str__(self) -> str:
        return f"version {self.number} of template {self.template_id}"


class SavedValues(models.Model):
    """A person's values under a name: of a template's parameters, or (`template` null) of the whole submit form."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_values", db_index=False
    )
    template = models.ForeignKey(JobTemplate, null=True, on_delete=models.CASCADE, related_name="saved_values")
    name = models.CharField(max_length=80)
    values = models.JSONField()
    saved_at = models.DateTimeField()

    objects = SavedQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "template", "name"], name="saved_values_once"),
            models.UniqueConstraint(
                fields=["user", "name"], condition=Q(template=None), name="saved_values_of_form_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name
