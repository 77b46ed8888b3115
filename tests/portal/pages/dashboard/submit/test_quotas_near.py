"""A quota that is nearly used is seen before it hurts: on the overview, the tenant's page and the form (story 17)."""

import pytest
from django.test import Client

from portal.pages.dashboard.parts import waiting
from portal.people.tenants.models import Tenant

pytestmark = pytest.mark.django_db


def test_it_is_said_from_nine_tenths_on(cluster, monkeypatch):
    for _ in range(8):
        cluster.submit()
    Tenant.objects.update(queued_jobs_quota=10)
    client = Client()
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    said = "vision-lab uses 8 of its 10 waiting jobs: a further one is refused soon."
    assert said not in client.get("/jobs/new").content.decode()
    monkeypatch.setattr(waiting, "WARNING_PERCENT", 80)
    assert said in client.get("/jobs/new").content.decode()
    assert "nearly all of it" in client.get("/tenants/vision-lab/").content.decode()
    assert "8 of its 10 waiting jobs" in client.get("/?view=mine").content.decode().replace("\u00a0", " ")
