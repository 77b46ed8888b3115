"""Read job templates: a person's own view of them, one by its name, and its versions."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from portal.foundation.errors import BerthError, NotFound
from portal.people.tenants.models import Membership, Tenant, User
from portal.planning.templating.models import JobTemplate, SavedValues, TemplateVersion

MOST_NUMBER = 2**31 - 1


def templates_for(*, user: User, tenant: Tenant | None = None, text: str = "") -> QuerySet[JobTemplate]:
    """Return the templates a user sees, by name; `tenant` narrows them to one tenant's and the operators'. One query."""
    found = JobTemplate.objects.visible_to(user).select_related("tenant")
    if tenant is not None:
        found = found.filter(Q(tenant=None) | Q(tenant=tenant))
    for word in text.split()[:8]:
        found = found.filter(Q(name__icontains=word) | Q(title__icontains=word) | Q(about__icontains=word))
    return found.order_by("name", "pk")


def template_named(
    name: str, *, user: User, token_tenant: Tenant | None = None, tenant: str | None = None, operators: bool = False
) -> JobTemplate:
    """Return the template of this name: of `tenant`, else of the user's own tenants, else the operators'.

    Raises NotFound, also for one that is not the user's to see, and BerthError `ambiguous` where two are meant.
    """
    seen = templates_for(user=user, tenant=token_tenant).filter(name=name)
    if operators:
        seen = seen.filter(tenant=None)
    elif tenant is not None:
        seen = seen.filter(tenant__name=tenant)
    own = set(Membership.objects.filter(user=user).values_list("tenant_id", flat=True))
    found = list(seen[:200])
    for among in (
        [each for each in found if each.tenant_id in own],
        [each for each in found if each.tenant_id is None],
        found,
    ):
        if len(among) == 1:
            return among[0]
        if among:
            names = ", ".join(sorted(str(each.tenant) for each in among))[:200]
            detail = f"Several tenants of yours have a template of this name ({names}); say which by `tenant`."
            raise BerthError("ambiguous", detail, field="tenant")
    raise NotFound("template")


def template_get(number: int, *, user: User) -> JobTemplate:
    found = templates_for(user=user).filter(pk=number).first() if number <= MOST_NUMBER else None
    if found is None:
        raise NotFound("template")
    return found


def version_get(template: JobTemplate, number: int | None = None) -> TemplateVersion:
    """Return a version of a template that the caller may see; None: the last one."""
    wanted = template.version if number is None else number
    found = template.versions.filter(number=wanted).first() if wanted <= MOST_NUMBER else None
    if found is None:
        raise NotFound("version of this template")
    return found


def versions_of(template: JobTemplate) -> QuerySet[TemplateVersion]:
    """Return the versions, the last first, without their documents."""
    return template.versions.order_by("-number").defer("document")


def saved_of(user: User, template: JobTemplate | None) -> QuerySet[SavedValues]:
    """Return a person's saved values of a template; None: of the whole submit form."""
    return SavedValues.objects.visible_to(user).filter(template=template).order_by("name", "pk")


def saved_get(number: int, *, user: User) -> SavedValues:
    found = SavedValues.objects.visible_to(user).select_related("template").filter(pk=number).first()
    if found is None:
        raise NotFound("saved settings")
    return found
