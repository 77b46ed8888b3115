"""What people choose on the account page, and managers on their tenant's: the two-tenant difference, and secrets once."""

import pytest
from django.test import Client

from portal.foundation.errors import BerthError
from portal.people.tenants.models import AuditEvent, Tenant
from portal.work.notifications.choosing import HOOKS_MOST, hook_make, wishes_set
from portal.work.notifications.models import Hook, Item, Wishes
from tests.portal import given
from tests.portal.work.notifications.receivers import http_server

pytestmark = pytest.mark.django_db


def browser(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def manager(cluster):
    return given.member("vera", cluster.tenant, "manager")


def test_a_person_chooses_and_sees_the_choice(cluster):
    client = browser(cluster.owner)
    assert "no mail server" in client.get("/account/").content.decode()
    assert client.post("/account/notifications", {"mail": ["failed", "limit"], "waits_h": "2.5"}).status_code == 302
    assert Wishes.objects.values("user", "mail", "waits_h").get() == {
        "user": cluster.owner.pk,
        "mail": ["failed", "limit"],
        "waits_h": 2.5,
    }
    page = client.get("/account/").content.decode()
    assert page.count('name="mail"') == 7
    assert page.count(" checked>") >= 2
    client.post("/account/notifications", {"waits_h": "24"})
    assert Wishes.objects.get().mail == []


@pytest.mark.parametrize(
    ("mail", "hours", "field"),
    [(["all"], "24", "events"), (["failed"], "nan", "waits_h"), (["failed"], "-1", "waits_h")],
)
def test_a_wrong_choice_changes_nothing(cluster, mail, hours, field):
    wishes_set(user=cluster.owner, mail=["ended"], waits_h=1)
    with pytest.raises(BerthError) as refused:
        wishes_set(user=cluster.owner, mail=mail, waits_h=hours)
    assert refused.value.field == field
    assert browser(cluster.owner).post("/account/notifications", {"mail": mail, "waits_h": hours}).status_code == 302
    assert (Wishes.objects.get().mail, Wishes.objects.get().waits_h) == (["ended"], 1)


def test_a_tenants_webhook_is_its_managers_alone(cluster, manager, monkeypatch):
    monkeypatch.setenv("BERTH_WEBHOOK_NETWORKS", "127.0.0.0/8")
    other = given.member("zoe", Tenant.objects.create(name="zebra"), "manager")
    form = {"events": ["ended"], "waits_h": "24"}
    with http_server() as calls:
        boss = browser(manager)
        made = boss.post("/tenants/vision-lab/webhooks", form | {"url": calls.url})
        assert made.status_code == 201
        hook = Hook.objects.get()
        secret = made.content.decode().split('id="hook-secret">')[1].split("<")[0]
        assert secret not in boss.get("/tenants/vision-lab/").content.decode()
        assert calls.url in boss.get("/tenants/vision-lab/").content.decode()
        for reader, status in ((cluster.owner, 403), (other, 404)):
            client = browser(reader)
            assert calls.url not in client.get("/tenants/vision-lab/").content.decode()
            assert client.post("/tenants/vision-lab/webhooks", form | {"url": calls.url}).status_code == status
            for verb in ("test", "delete"):
                assert client.post(f"/tenants/vision-lab/webhooks/{hook.pk}/{verb}").status_code == status
        assert browser(other).post(f"/tenants/zebra/webhooks/{hook.pk}/delete").status_code == 404
        assert browser(manager).post(f"/account/webhooks/{hook.pk}/delete").status_code == 404
        boss.post(f"/tenants/vision-lab/webhooks/{hook.pk}/test")
        assert calls.bodies()[0]["test"] is True
        page = boss.get("/tenants/vision-lab/").content.decode()
        assert "The receiver answered 200" in page
        assert "what the receiver says" not in page
    boss.post(f"/tenants/vision-lab/webhooks/{hook.pk}/delete")
    assert not Hook.objects.exists()
    assert AuditEvent.objects.filter(action="webhook.delete", tenant=cluster.tenant).exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1:6379/", "http://169.254.169.254/", "gopher://x/", ""])
def test_a_refused_address_makes_no_webhook(cluster, manager, url):
    answer = browser(manager).post("/tenants/vision-lab/webhooks", {"url": url, "events": ["ended"]}, follow=True)
    assert "`url`" in answer.content.decode().replace("&#x27;", "'")
    assert not Hook.objects.exists()


def test_there_are_only_so_many(cluster, manager):
    for _ in range(HOOKS_MOST):
        hook_make(actor=manager, tenant=cluster.tenant, url="https://a.example/", events=["ended"])
    with pytest.raises(BerthError) as refused:
        hook_make(actor=manager, tenant=cluster.tenant, url="https://a.example/", events=["ended"])
    assert refused.value.code == "too_many"
    hook_make(actor=manager, url="https://a.example/", events=["ended"])


def test_what_is_not_wanted_any_more_is_forgotten(cluster):
    wishes_set(user=cluster.owner, mail=["ended", "failed"], waits_h=24)
    job = cluster.submit()
    for what in ("ended", "failed"):
        Item.objects.create(user=cluster.owner, job=job, what=what, mark="1", at=job.submitted_at)
    wishes_set(user=cluster.owner, mail=["failed"], waits_h=24)
    assert list(Item.objects.values_list("what", flat=True)) == ["failed"]
