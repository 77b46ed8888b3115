"""The world of the casts, built once a module for tests that take every change back."""

import copy

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from portal.cluster.models import Node
from tests.portal.access.committed import Committed
from tests.portal.access.world import build, offers_keep


@pytest.fixture(scope="module", autouse=True)
def _no_broker():
    """No broker."""
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, _no_broker):
    """The world once a module, in a transaction around those of the tests: to build it takes a third of a second."""
    assert settings.REDIS_URL.endswith(":1/0")
    with django_db_blocker.unblock(), transaction.atomic():
        yield build()
        transaction.set_rollback(True)


@pytest.fixture(scope="session")
def committed(tmp_path_factory):
    """The same for tests whose application reads in threads of its own: to build it takes as long as most of them."""
    return Committed(tmp_path_factory.mktemp("committed"))


@pytest.fixture(scope="module")
def offers_known(built, django_db_blocker):
    """What would start the waiting jobs sooner is kept for all who ask."""
    with django_db_blocker.unblock():
        offers_keep(built)


@pytest.fixture
def world(built, db):
    """The same for each test, as of now: its objects are copies, its rows are put back when the test ends."""
    Node.objects.exclude(name="silent").update(last_contact_at=timezone.now())
    return copy.deepcopy(built)
