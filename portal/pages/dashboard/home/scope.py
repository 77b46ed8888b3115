"""Whose jobs an overview is of: mine, or my tenant's; which of both a reader chose last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.shell.frame import own_tenants
from portal.people.tenants.models import Tenant
from portal.people.tenants.selectors import OWN_TENANT
from portal.work.jobs.models import Job
from portal.work.jobs.use import Use, tenants_use

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from portal.pages.dashboard.parts.context import Choice
    from portal.people.tenants.models import User

MINE, CLUSTER = "mine", "cluster"
KEPT = "overview"
"""The session's key of the reader's last choice."""


@dataclass
class Scope:
    """`view`: mine, or the name of one of the reader's tenants. `tenant`: the one whose share is shown."""

    user: User
    view: str
    tenants: list[Tenant]

    @cached_property
    def now(self) -> datetime:
        return timezone.now()

    @cached_property
    def use(self) -> dict[int, Use]:
        """Each of the reader's tenants' use of its quotas, by its key."""
        return tenants_use(Tenant.objects.filter(pk__in=[tenant.pk for tenant in self.tenants]))

    @property
    def is_mine(self) -> bool:
        return self.view == MINE

    @property
    def tenant(self) -> Tenant | None:
        named = next((tenant for tenant in self.tenants if tenant.name == self.view), None)
        return named or (self.tenants[0] if self.tenants else None)

    @property
    def jobs(self) -> QuerySet[Job]:
        """The jobs that are shown, arrays folded; all of them the reader may see."""
        jobs = Job.objects.visible_to(self.user).top_level()
        return jobs.filter(owner=self.user) if self.is_mine else jobs.filter(tenant=self.tenant)

    @property
    def key(self) -> str:
        """The readers of the same page: one person, for "mine" and the cells belong to a person."""
        return f"{self.user.pk}:{self.view}"


def scope_of(request: HttpRequest) -> Scope | None:
    """Return whose jobs the reader asks for, or chose last; None: the whole cluster's overview, which operators have."""
    user: User = request.user
    tenants = tenants_shown(request)
    names = {tenant.name for tenant in tenants}
    asked = request.GET.get("view", "")
    kept = request.session.get(KEPT, "")
    offered = {MINE, *names, *([CLUSTER] if user.is_operator else [])}
    view = next((each for each in (asked, kept) if each in offered), "")
    if asked == view and asked and asked != kept:
        request.session[KEPT] = asked
    view = view or (CLUSTER if user.is_operator else MINE)
    return None if view == CLUSTER else Scope(user, view, tenants)


def tenants_shown(request: HttpRequest) -> list[Tenant]:
    """Return the reader's active tenants but Berth's own."""
    return [tenant for tenant in own_tenants(request) if tenant.is_active and tenant.name != OWN_TENANT]


def view_choices(user: User, tenants: list[Tenant], view: str) -> list[Choice]:
    """Return the switch: mine, each of my tenants, and for operators the cluster."""
    labels = {MINE: "Mine", **{tenant.name: tenant.name for tenant in tenants}}
    labels |= {CLUSTER: "Cluster"} if user.is_operator else {}
    return [
        {"value": value, "label": label, "selected": value == view, "url": f"{reverse('overview')}?view={value}"}
        for value, label in labels.items()
    ]
