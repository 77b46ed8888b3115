"""Secrets of a tenant, which its jobs name: kept sealed, opened only for the node that runs such a job."""

from __future__ import annotations

from django.db import models

from portal.people.tenants.models import OfTenants, Tenant


class Secret(models.Model):
    """A name and a sealed text."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="secrets", db_index=False)
    name = models.CharField(max_length=63)
    sealed = models.TextField(help_text="Its value, sealed with the signing key (`portal.foundation.secret_key`).")
    changed_by = models.CharField(max_length=150, help_text="Who set it last, as the person was called then.")
    changed_at = models.DateTimeField()

    objects = OfTenants.as_manager()

    class Meta:
        ordering = ["tenant__name", "name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="secret_once_a_tenant")]

    def __str__(self) -> str:
        return self.name
