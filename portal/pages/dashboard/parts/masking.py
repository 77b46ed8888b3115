"""Whose jobs a reader may see by name (invariant 8), for pages on the whole cluster, which show everybody's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.people.tenants.models import Membership
from portal.work.jobs.selectors import ANOTHERS

if TYPE_CHECKING:
    from portal.people.tenants.models import User

__all__ = ["ANOTHERS", "OTHER_TENANT", "Reader"]

OTHER_TENANT = "another tenant"


@dataclass(frozen=True)
class Reader:
    """The reader. An operator sees all tenants' jobs."""

    user: User
    tenant_ids: frozenset[int]

    @classmethod
    def of(cls, user: User) -> Reader:
        if user.is_operator:
            return cls(user, frozenset())
        return cls(user, frozenset(Membership.objects.filter(user=user).values_list("tenant_id", flat=True)))

    @property
    def key(self) -> str:
        """Readers of an equal key see the same jobs, and may do the same to nodes."""
        return "operator" if self.user.is_operator else ",".join(map(str, sorted(self.tenant_ids))) or "none"

    def sees(self, tenant_id: int) -> bool:
        return self.user.is_operator or tenant_id in self.tenant_ids
