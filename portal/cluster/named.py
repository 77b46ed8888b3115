"""Software environments that an operator names for all nodes, beside those that a node's own agent names."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models


class NamedEnvironment(models.Model):
    """A virtual or conda environment, at one directory of every node that has it. Agents look whether theirs has."""

    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z", "Use letters, digits and ._- only.")],
        help_text="By which jobs ask for it: letters, digits and ._-",
    )
    directory = models.CharField(
        max_length=1024, help_text="Where it lies on nodes, as /opt/torch: an absolute directory with bin/python in it."
    )
    note = models.CharField(max_length=200, blank=True, help_text="What is in it, for those who choose.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
