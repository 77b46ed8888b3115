"""Which tenants a form offers: Berth's own is nobody's to submit for, unless somebody made themselves its member."""

import pytest

from portal.people.tenants.models import Membership, Tenant
from portal.people.tenants.selectors import OWN_TENANT, tenants_of
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenants():
    return [Tenant.objects.create(name=name) for name in (OWN_TENANT, "audio", "vision")]


def test_an_operator_is_not_offered_berths_own(tenants):
    assert [each.name for each in tenants_of(given.operator())] == ["audio", "vision"]


def test_who_is_its_member_is_offered_it_last(tenants):
    user = given.operator()
    for tenant in tenants:
        Membership.objects.create(user=user, tenant=tenant)
    assert [each.name for each in tenants_of(user)] == ["audio", "vision", OWN_TENANT]
