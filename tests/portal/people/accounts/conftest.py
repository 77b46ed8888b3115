"""A person with a second factor, and the clock of its codes."""

from types import SimpleNamespace

import pyotp
import pytest
from django.core.cache import cache

from portal.people.accounts import second
from portal.people.tenants.models import Tenant
from tests.portal.people.accounts.test_people import person


@pytest.fixture
def clock(monkeypatch):
    """Seconds that codes are made from; a test moves them on."""
    now = [1_800_000_000.0]
    monkeypatch.setattr(second, "time", SimpleNamespace(time=lambda: now[0]))
    return now


@pytest.fixture
def viktor():
    cache.clear()
    return person("viktor", Tenant.objects.create(name="vision-lab"))


@pytest.fixture
def protected(viktor, clock):
    """Viktor with a second factor; (its codes by time, his recovery codes)."""
    factor = second.factor_begin(user=viktor)
    totp = pyotp.TOTP(factor.secret)
    codes = second.factor_confirm(user=viktor, code=totp.at(clock[0]), session_key=None)
    clock[0] += 30
    return totp, codes
