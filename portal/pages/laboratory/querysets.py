"""Which traces and simulations a user may see and change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant, User


class OwnedQuerySet(models.QuerySet):
    """Rows with `owner`, `tenant` and `shared_with`."""

    def visible_to(self, user: User) -> OwnedQuerySet:
        """Return the user's own, those shared within the user's tenants, and for an operator all that are shared."""
        if not user.is_authenticated:
            return self.none()
        own = Q(owner=user) & Q(tenant__in=user.tenants.all())
        if user.is_operator:
            return self.filter(Q(owner=user) | Q(shared_with="tenant") | Q(shared_with="operators"))
        return self.filter(own | Q(shared_with="tenant", tenant__in=user.tenants.all()))

    def within(self, tenant: Tenant | None) -> OwnedQuerySet:
        """Keep rows of a restricted token's tenant that tell nothing of foreign jobs. None: keep all."""
        return self if tenant is None else self.filter(tenant=tenant).exclude(**{self.model.TELLS_OF_ALL: True})
