"""The world of the casts, built once a module for tests that take every change back."""

import pytest
from django.conf import settings
from django.test import override_settings

from tests.portal.access.world import build
from tests.portal.dashboard.cluster_world import PLAIN_STATIC


@pytest.fixture(scope="module", autouse=True)
def _plain():
    """Static files by their own names, no broker: once a module, since each change drops loaded URLs."""
    with override_settings(STORAGES=PLAIN_STATIC, REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture
def world(db):
    assert settings.REDIS_URL.endswith(":1/0")
    return build()
