"""The job list as one person wants it: columns, saved views, which a tenant's members may share, and jobs that were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.people.accounts.models import JobColumns, JobView, Looked
from portal.people.tenants.models import Membership, User
from portal.people.tenants.selectors import work_check

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django.db.models import QuerySet

    from portal.people.tenants.models import Tenant


VIEWS_MOST = 50
NAME_MOST = 60
MINE = "mine"


def columns_of(user: User) -> list[str]:
    """Return the columns that a person chose; [] for none."""
    return list(JobColumns.objects.filter(user=user).values_list("columns", flat=True).first() or [])


def columns_keep(*, user: User, columns: Sequence[str]) -> None:
    """Keep a person's columns; [] goes back to the usual ones."""
    if columns:
        JobColumns.objects.update_or_create(user=user, defaults={"columns": list(columns)})
    else:
        JobColumns.objects.filter(user=user).delete()


def views_of(user: User) -> QuerySet[JobView]:
    """Return a person's own views and those shared with tenants of which the person is a member."""
    mine = Membership.objects.filter(user=user).values("tenant_id")
    return JobView.objects.filter(Q(owner=user, tenant=None) | Q(tenant__in=mine)).select_related("owner", "tenant")


def view_get(*, user: User, number: str) -> JobView:
    """Return a view that the person may see. A missing, a foreign and a malformed number: NotFound."""
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise NotFound("view")
    view = views_of(user).filter(pk=int(number)).first()
    if view is None:
        raise NotFound("view")
    return view


@transaction.atomic
def view_save(
    *,
    user: User,
    tenant: Tenant | None,
    name: str,
    query: str,
    filters: Mapping[str, str],
    columns: Sequence[str],
) -> JobView:
    """Save a view; a person's view of this name is replaced. `tenant`: its members see it too.

    Codes: required, too_long, view_not_shared (it names what the tenant's members may not know of), too_many (409).
    """
    name = " ".join(name.split())
    if not name:
        raise BerthError("required", "Give the view a name.", field="name")
    if len(name) > NAME_MOST or not name.isprintable():
        raise BerthError("too_long", f"`name` may have {NAME_MOST} characters at most, on one line.", field="name")
    if tenant is not None:
        _shared_check(user=user, tenant=tenant, filters=filters)
    User.objects.select_for_update().get(pk=user.pk)  # so that two at once count one after the other
    own = JobView.objects.filter(owner=user)
    if not own.filter(name=name).exists() and own.count() >= VIEWS_MOST:
        raise Conflict("too_many", f"You have {VIEWS_MOST} views; delete one first.")
    values = {"tenant": tenant, "query": query, "columns": list(columns)}
    return JobView.objects.update_or_create(owner=user, name=name, defaults=values)[0]


def _shared_check(*, user: User, tenant: Tenant, filters: Mapping[str, str]) -> None:
    """A shared view names no other tenant, and nobody who is not a member of the one that it is shared with."""
    work_check(user, tenant)
    if filters.get("tenant") not in {None, "", tenant.name}:
        detail = f"A view shared with {tenant.name} cannot filter by another tenant. Clear that filter, or keep it for yourself."
        raise BerthError("view_not_shared", detail, field="tenant")
    owner = filters.get("owner")
    if owner and owner != MINE and not Membership.objects.filter(tenant=tenant, user__username=owner).exists():
        detail = f"A view shared with {tenant.name} can filter by its members only. Clear the owner, or keep it for yourself."
        raise BerthError("view_not_shared", detail, field="owner")


def view_delete(*, user: User, number: str) -> None:
    """Delete a view of one's own. Another's: NotFound."""
    view = view_get(user=user, number=number)
    if view.owner_id != user.pk:
        raise NotFound("view of yours")
    view.delete()


WHATS = ("end", "offer", "limit")


def looked_at(*, user: User, job_ids: Collection[int], what: str) -> None:
    """Note it; once is enough, so that a page that is loaded again writes nothing."""
    known = set(Looked.objects.filter(user=user, what=what, job_id__in=job_ids).values_list("job_id", flat=True))
    fresh = [Looked(user=user, job_id=pk, what=what) for pk in job_ids if pk not in known]
    if fresh:
        Looked.objects.bulk_create(fresh, ignore_conflicts=True)
