"""Services behind the operator's console: their refusals, and their entries in the trail."""

import math

import pytest
from axes.models import AccessAttempt

from portal.cluster.services import gpu_type_upsert
from portal.foundation.errors import BerthError
from portal.people.tenants import services
from portal.people.tenants.models import AuditEvent, Tenant, User

pytestmark = pytest.mark.django_db


def trail():
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


def test_tenant_update_refuses_what_is_not_its_to_change():
    tenant = services.tenant_create(name="vision-lab", actor=None)
    for values, field in [({"name": "x"}, "name"), ({"weight": 0}, "weight"), ({"gpu_quota": -1}, "gpu_quota")]:
        with pytest.raises(BerthError) as refused:
            services.tenant_update(tenant=tenant, actor=None, **values)
        assert refused.value.field == field
    assert Tenant.objects.get().weight == 1
    assert trail() == ["tenant.create"]


def test_saving_the_same_leaves_no_trace():
    tenant = services.tenant_create(name="vision-lab", actor=None)
    user = User.objects.create(username="mia")
    services.tenant_update(tenant=tenant, actor=None, weight=1.0, is_active=True)
    services.user_update(user=user, actor=None, email="", is_active=True)
    assert not services.membership_remove(user=user, tenant=tenant, actor=None)
    assert trail() == ["tenant.create"]


def test_the_last_operator_cannot_be_demoted():
    user = User.objects.create(username="olga", is_staff=True, is_superuser=True)
    with pytest.raises(BerthError, match="last active operator"):
        services.user_update(user=user, actor=user, is_operator=False)
    user.refresh_from_db()
    assert user.is_staff
    assert trail() == []


def test_a_weak_password_is_refused():
    user = User.objects.create(username="mia", password="before")
    with pytest.raises(BerthError) as refused:
        services.user_password_reset(user=user, actor=None, password="password")
    assert refused.value.field == "password"
    user.refresh_from_db()
    assert user.password == "before"


def test_failed_sign_ins_are_forgotten_once():
    for name in ("mia", "max"):
        AccessAttempt.objects.create(username=name, ip_address="10.0.0.1", failures_since_start=9)
    for _ in range(2):
        services.sign_in_failures_forget(username="mia", ip_address="10.0.0.1", actor=None)
    assert list(AccessAttempt.objects.values_list("username", flat=True)) == ["max"]
    assert trail() == ["sign-in.forget-failures"]


@pytest.mark.parametrize("field", ["relative_speed", "share_weight"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_a_types_speed_and_weight_are_numbers_above_nought(field, value):
    gpu_type_upsert(name="V100")
    with pytest.raises(BerthError) as refused:
        gpu_type_upsert(name="V100", **{field: value})
    assert refused.value.field == field


def test_two_tenants_never_share_an_account_and_none_is_root():
    services.tenant_create(name="vision-lab", actor=None, unix_account="vision")
    other = services.tenant_create(name="speech-lab", actor=None)
    services.tenant_create(name="third-lab", actor=None)  # without an account there may be many
    for name in ("vision", "root", "0", "a b", "../x"):
        with pytest.raises(BerthError) as raised:
            services.tenant_update(tenant=other, actor=None, unix_account=name)
        assert raised.value.field == "unix_account"
    assert services.tenant_update(tenant=other, actor=None, unix_account="speech").unix_account == "speech"
