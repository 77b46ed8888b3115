"""Fixtures of the laboratory's tests: tenant vision-lab, and lena of it."""

import pytest

from portal.people.tenants.models import Tenant
from tests.portal import given


@pytest.fixture
def tenant():
    return Tenant.objects.create(name="vision-lab")


@pytest.fixture
def lena(tenant):
    return given.member("lena", tenant)
