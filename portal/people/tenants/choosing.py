"""For which tenant somebody does something: the one that is named, a token's, or the only one there is."""

from __future__ import annotations

from portal.foundation.errors import BerthError, Forbidden
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.rights import work_check
from portal.people.tenants.selectors import role_of, tenants_of


def tenant_resolve(*, user: User, tenant: Tenant | None, name: str | None, what: str = "the job is") -> Tenant:
    """Return the tenant for a `what`. A token's tenant wins. A foreign and a missing name get the same answer."""
    if tenant is not None and name and tenant.name != name:
        raise Forbidden(
            f"This token is for tenant {tenant.name} only; use another token for another tenant.", field="tenant"
        )
    if tenant is None and name:
        tenant = Tenant.objects.visible_to(user).filter(name=name).first()
    elif tenant is None:
        own = tenants_of(user)
        if len(own) != 1:
            names = ", ".join(t.name for t in own) or "none; ask an operator to add you to one"
            raise BerthError("required", f"Say for which tenant {what}. Your tenants: {names}.", field="tenant")
        tenant = own[0]
    if tenant is None or role_of(user=user, tenant=tenant) is None:
        raise BerthError("unknown_tenant", "No such tenant, or you are not a member of it.", field="tenant")
    work_check(user, tenant)
    if not tenant.is_active:
        raise Forbidden(f"Tenant {tenant.name} is closed to new jobs; ask an operator.", field="tenant")
    return tenant
