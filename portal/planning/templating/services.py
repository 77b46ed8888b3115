"""Keep, change and delete job templates, and a person's saved values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone

from portal.foundation import checks
from portal.foundation.disk import disk_require
from portal.foundation.errors import BerthError, Conflict, Forbidden
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import manage_check, role_of, tenants_of, work_check
from portal.people.tenants.services import audit_record
from portal.planning.templating.document import Document, document_read
from portal.planning.templating.models import JobTemplate, SavedValues, TemplateVersion

MOST_TEMPLATES = 100
MOST_VERSIONS = 200
MOST_BYTES_ALL = 32 * 1024 * 1024
MOST_SAVED = 100
MOST_SAVED_BYTES = 64 * 1024


def template_owner(
    *, user: User, name: str | None, operators: bool, token_tenant: Tenant | None = None
) -> Tenant | None:
    """Return the tenant for which a template is made; None: it is the operators'. A foreign tenant answers as a missing one."""
    if operators:
        if not user.is_operator or token_tenant is not None:
            raise Forbidden("Only operators make templates for all tenants.", code="operator_only", field="operators")
        if name is not None:
            raise BerthError("conflict", "Give `tenant` or `operators`, not both.", field="tenant")
        return None
    if token_tenant is not None:
        if name not in (None, token_tenant.name):
            raise Forbidden(f"This token is for tenant {token_tenant.name} only.", field="tenant")
        return token_tenant
    own = tenants_of(user)
    if name is None:
        if len(own) != 1:
            names = ", ".join(each.name for each in own)[:300] or "none; ask an operator to add you to one"
            raise BerthError("required", f"Say for which tenant the template is: {names}.", field="tenant")
        return own[0]
    found = Tenant.objects.visible_to(user).filter(name=name, is_active=True).first()
    if found is None or role_of(user=user, tenant=found) is None:
        raise BerthError("unknown_tenant", "No such tenant, or you are not a member of it.", field="tenant")
    return found


def template_save(*, actor: User, tenant: Tenant | None, document: object) -> tuple[JobTemplate, bool]:
    """Keep a template: a new one, or the next version of the one with its name. Return it, and whether anything changed.

    Raises BerthError: faults of the document, 403 for a viewer, 409 `too_many` at a limit.
    """
    if tenant is None:
        if not actor.is_operator:
            raise Forbidden("Only operators make templates for all tenants.", code="operator_only")
    else:
        work_check(actor, tenant)
    read = document_read(document)
    disk_require()
    try:
        with transaction.atomic():
            return _kept(actor, tenant, read)
    except IntegrityError:
        detail = "Somebody made the same template at this moment; look at it, and save yours again."
        raise Conflict("changed", detail, field="name") from None


def _kept(actor: User, tenant: Tenant | None, read: Document) -> tuple[JobTemplate, bool]:
    made = read.as_json()
    template = JobTemplate.objects.select_for_update(no_key=True).filter(tenant=tenant, name=read.name).first()
    if template is not None:
        last = template.versions.filter(number=template.version).first()
        if last is not None and last.document == made:
            return template, False
    else:
        template = JobTemplate(tenant=tenant, name=read.name)
    size = len(json.dumps(made))
    _room_check(tenant, template, size)
    now = timezone.now()
    template.version, template.title, template.about = template.version + 1, read.title, read.about
    template.changed_at = now
    template.save()
    TemplateVersion.objects.create(
        template=template, number=template.version, document=made, size_bytes=size, made_by=actor.username, made_at=now
    )
    detail = {"name": read.name, "version": template.version}
    audit_record(actor=actor, action="template.save", target=f"template:{template.pk}", tenant=tenant, detail=detail)
    return template, True


def _room_check(tenant: Tenant | None, template: JobTemplate, size: int) -> None:
    """Refuse what would let one tenant fill the database."""
    kept = TemplateVersion.objects.filter(template__tenant=tenant)
    if template.pk is None and JobTemplate.objects.filter(tenant=tenant).count() >= MOST_TEMPLATES:
        detail = f"There are {MOST_TEMPLATES} templates already; delete one that nobody uses."
        raise Conflict("too_many", detail, field="name")
    if template.version >= MOST_VERSIONS:
        detail = f"The template has {MOST_VERSIONS} versions; export it, delete it, and import it again."
        raise Conflict("too_many", detail, field="name")
    if (kept.aggregate(total=Sum("size_bytes"))["total"] or 0) + size > MOST_BYTES_ALL:
        detail = "All versions together would be larger than 32 MiB; delete templates that nobody uses."
        raise Conflict("too_large", detail, field="job")


@transaction.atomic
def template_delete(*, actor: User, template: JobTemplate) -> None:
    """Delete a template with its versions; its jobs keep theirs. A tenant's: managers; the operators': operators."""
    if template.tenant is not None:
        manage_check(actor, template.tenant)
    elif not actor.is_operator:
        raise Forbidden("Only operators delete templates that are for all tenants.", code="operator_only")
    audit_record(
        actor=actor,
        action="template.delete",
        target=f"template:{template.pk}",
        tenant=template.tenant,
        detail={"name": template.name, "version": template.version},
    )
    template.delete()


def may_change(user: User, template: JobTemplate) -> bool:
    """Say whether a person may save another version."""
    return _role(user, template) in {"member", "manager", "operator"}


def may_delete(user: User, template: JobTemplate) -> bool:
    return _role(user, template) in {"manager", "operator"}


def _role(user: User, template: JobTemplate) -> str | None:
    if template.tenant is None:
        return "operator" if user.is_operator else None
    return role_of(user=user, tenant=template.tenant)


@transaction.atomic
def values_save(*, user: User, template: JobTemplate | None, name: str, values: Mapping[str, Any]) -> SavedValues:
    """Keep a person's values under a name; the same name again replaces them. Code too_many, too_large."""
    name = checks.text(name, "save_as", max_chars=80)
    if len(json.dumps(dict(values))) > MOST_SAVED_BYTES:
        detail = "These settings are larger than 64 KiB; they were not saved. Files are not saved with them."
        raise BerthError("too_large", detail, field="save_as")
    found = SavedValues.objects.filter(user=user, template=template, name=name).first()
    if found is None:
        if SavedValues.objects.filter(user=user).count() >= MOST_SAVED:
            detail = f"You have {MOST_SAVED} saved settings already; delete one that you no longer use."
            raise Conflict("too_many", detail, field="save_as")
        found = SavedValues(user=user, template=template, name=name)
    found.values, found.saved_at = dict(values), timezone.now()
    found.save()
    return found
