"""Members, roles, invitations, passwords and sessions: the rights of each, and that an end takes effect at once (story 15)."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.accounts.members import invitation_accept, invitation_make, member_remove, member_role_set
from portal.people.accounts.models import Invitation, SignIn
from portal.people.tenants.models import AuditEvent, Membership, Tenant, User
from portal.people.tenants.selectors import RIGHTS, may
from portal.people.tenants.services import token_create
from portal.work.jobs.models import Job
from tests.portal import given

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-9-staple"


@pytest.fixture
def tenant():
    cache.clear()
    return Tenant.objects.create(name="vision-lab")


def person(name, tenant=None, role="member"):
    user = User.objects.create_user(username=name, password=PASSWORD)
    if tenant is not None:
        Membership.objects.create(user=user, tenant=tenant, role=role)
    return user


def signed_in(user, **more):
    client = Client(**more)
    answer = client.post("/login", {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302
    return client


@pytest.fixture
def manager(tenant):
    return person("vera", tenant, "manager")


def get(client, path):
    return client.get(path).status_code


# ---- removal ---------------------------------------------------------------------------------------------------------


def test_a_removed_members_tokens_and_sessions_die_at_once(tenant, manager):
    """Story 15."""
    viktor = person("viktor", tenant)
    _, bound = token_create(user=viktor, actor=viktor, name="t", scopes=["jobs:read"], tenant=tenant)
    _, free = token_create(user=viktor, actor=viktor, name="u", scopes=["jobs:read"])
    browsers = [signed_in(viktor), signed_in(viktor)]
    for client in browsers:
        assert get(client, "/jobs/") == 200
    answer = signed_in(manager).post("/tenants/vision-lab/members/viktor", {"role": "remove"})
    assert answer.status_code == 302
    assert [get(client, "/jobs/") for client in browsers] == [302, 302]
    for secret in (bound, free):
        assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert AuditEvent.objects.filter(action="membership.remove", tenant=tenant).exists()


def test_a_token_for_several_tenants_goes_on_for_the_others(tenant, manager):
    viktor, other = person("viktor", tenant), Tenant.objects.create(name="other")
    Membership.objects.create(user=viktor, tenant=other)
    _, secret = token_create(user=viktor, actor=viktor, name="t", scopes=["jobs:read"])
    member_remove(tenant=tenant, username="viktor", actor=manager)
    assert Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_the_last_manager_stays_unless_an_operator_says_so(tenant, manager):
    for change in (
        lambda: member_remove(tenant=tenant, username="vera", actor=manager),
        lambda: member_role_set(tenant=tenant, username="vera", role="viewer", actor=manager),
    ):
        with pytest.raises(BerthError) as refused:
            change()
        assert refused.value.code == "last_manager"
    member_remove(tenant=tenant, username="vera", actor=given.operator())
    assert not Membership.objects.filter(tenant=tenant).exists()


# ---- roles: one rule -------------------------------------------------------------------------------------------------

ACTS = {
    "submit": lambda client, job: client.post(
        "/api/v1/jobs", {"command": "true", "gpus": 1}, content_type="application/json"
    ),
    "plan": lambda client, job: client.post(
        "/api/v1/jobs/plan", {"command": "true", "gpus": 1}, content_type="application/json"
    ),
    "cancel": lambda client, job: client.post(f"/api/v1/jobs/{job.pk}/cancel", {}, content_type="application/json"),
    "hold": lambda client, job: client.post(f"/api/v1/jobs/{job.pk}/hold", {}, content_type="application/json"),
    "release": lambda client, job: client.post(f"/api/v1/jobs/{job.pk}/release", {}, content_type="application/json"),
    "requeue": lambda client, job: client.post(f"/api/v1/jobs/{job.pk}/requeue", {}, content_type="application/json"),
    "retry": lambda client, job: client.post(f"/api/v1/jobs/{job.pk}/retry", {}, content_type="application/json"),
    "priority": lambda client, job: client.patch(
        f"/api/v1/jobs/{job.pk}", {"priority": -1}, content_type="application/json"
    ),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("role", ["viewer", "member", "manager"])
def test_a_viewer_changes_no_job_and_others_may(cluster, act, role):
    cache.clear()
    job = cluster.submit(gpus=1)
    user = person("reader", cluster.tenant, role)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    before = Job.objects.count(), Job.objects.filter(pk=job.pk).values().get()
    answer = ACTS[act](client, job)
    if role == "viewer":
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "viewer")
        assert (Job.objects.count(), Job.objects.filter(pk=job.pk).values().get()) == before
    else:
        assert answer.status_code != 403
    assert client.get(f"/api/v1/jobs/{job.pk}").status_code == 200


def test_a_viewer_orders_no_simulation(cluster):
    client = Client()
    client.force_login(person("reader", cluster.tenant, "viewer"), backend="django.contrib.auth.backends.ModelBackend")
    body = {"name": "x", "generator": "hops-64", "jobs": 3, "cluster": "own", "policies": ["fifo"]}
    answer = client.post("/api/v1/simulations", body, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "viewer")


@pytest.mark.parametrize(
    ("role", "rights"),
    [("viewer", {"see"}), ("member", {"see", "work"}), ("manager", {"see", "work", "manage"}), (None, set())],
)
def test_rights_of_roles(tenant, role, rights):
    user = person("somebody", tenant if role else None, role or "member")
    assert {right for right in ("see", "work", "manage") if may(user, tenant, right)} == rights
    assert set(RIGHTS) == {"viewer", "member", "manager", "operator"}


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_only_managers_manage(tenant, manager, role):
    client = signed_in(person("reader", tenant, role))
    assert client.post("/tenants/vision-lab/members/vera", {"role": "remove"}).status_code == 403
    assert client.post("/tenants/vision-lab/invite", {"role": "manager", "days": "7"}).status_code == 403
    page = client.get("/tenants/vision-lab/").content.decode()
    assert "vera" in page
    assert "Make a link" not in page


def test_another_tenants_page_is_missing(tenant, manager):
    other = person("zoe", Tenant.objects.create(name="zebra"), "manager")
    client = signed_in(other)
    assert get(client, "/tenants/vision-lab/") == get(client, "/tenants/nothing/") == 404
    assert client.post("/tenants/vision-lab/members/vera", {"role": "remove"}).status_code == 404


# ---- invitations -----------------------------------------------------------------------------------------------------


def link_of(client, role="member"):
    answer = client.post("/tenants/vision-lab/invite", {"role": role, "days": "7"})
    assert answer.status_code == 201
    return "/invitations/" + answer.content.decode().split("/invitations/")[1].split("<")[0]


def test_an_invitation_works_once(tenant, manager):
    link = link_of(signed_in(manager), "viewer")
    first, second = signed_in(person("new")), signed_in(person("late"))
    assert "as <strong>viewer</strong>" in first.get(link).content.decode()
    assert not Membership.objects.filter(user__username="new").exists(), "to look is not to join"
    assert first.post(link).status_code == 302
    assert Membership.objects.get(user__username="new").role == "viewer"
    assert second.get(link).status_code == second.post(link).status_code == 404
    assert AuditEvent.objects.filter(action="invitation.make", tenant=tenant).exists()
    assert link.rpartition("/")[2] not in str(list(Invitation.objects.values())), "only its hash is kept"


def test_an_invitation_that_ended_or_was_withdrawn_is_missing(tenant, manager):
    boss, new = signed_in(manager), signed_in(person("new"))
    link = link_of(boss)
    number = Invitation.objects.get().pk
    assert boss.post(f"/tenants/vision-lab/invitations/{number}/end").status_code == 302
    assert new.get(link).status_code == 404
    link = link_of(boss)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert new.post(link).status_code == 404


def test_an_invitation_ends_with_its_managers_role_and_lowers_nobody(tenant, manager):
    _, secret = invitation_make(tenant=tenant, role="viewer", days=1, actor=manager)
    with pytest.raises(BerthError) as refused:
        invitation_accept(secret=secret, user=manager)
    assert refused.value.code == "member_already"
    assert Membership.objects.get(user=manager).role == "manager"
    Membership.objects.filter(user=manager).update(role="member")
    with pytest.raises(BerthError):
        invitation_accept(secret=secret, user=person("new"))
    assert not Membership.objects.filter(user__username="new").exists()


@pytest.mark.parametrize(("role", "days"), [("owner", 7), ("", 7), ("member", 0), ("member", 3650)])
def test_a_wrong_invitation_is_refused(tenant, manager, role, days):
    with pytest.raises(BerthError) as refused:
        invitation_make(tenant=tenant, role=role, days=days, actor=manager)
    assert refused.value.field in {"role", "days"}
    assert not Invitation.objects.exists()


def test_links_are_not_guessed_at_will(tenant):
    client = signed_in(person("new"))
    codes = [get(client, f"/invitations/guess-{k}") for k in range(25)]
    assert codes[:5] == [404] * 5
    assert codes[-1] == 429


# ---- the own account -------------------------------------------------------------------------------------------------


def test_a_reader_without_an_account_is_told_whom_to_ask_and_a_stranger_nothing(tenant, manager, client):
    link = link_of(signed_in(manager))
    answer = client.get(link, follow=True)
    assert answer.redirect_chain[0][0].startswith("/login?next=/invitations/")
    page = answer.content.decode()
    assert "vera invites you to vision-lab" in page
    assert "ask vera" in page
    for other in ("/invitations/wrong", "/jobs/", "//elsewhere.example/invitations/x", "http://[/"):
        assert "vision-lab" not in client.get("/login", {"next": other}).content.decode(), other
    Invitation.objects.update(used_at=timezone.now())
    assert "vision-lab" not in client.get(link, follow=True).content.decode()


def test_a_new_password_ends_the_other_sessions(tenant):
    viktor = person("viktor", tenant)
    here, there = signed_in(viktor), signed_in(viktor)
    form = {"old": PASSWORD, "new": "another-good-1-staple", "again": "another-good-1-staple"}
    assert here.post("/account/", form).status_code == 302
    assert (get(here, "/jobs/"), get(there, "/jobs/")) == (200, 302)
    viktor.refresh_from_db()
    assert viktor.check_password("another-good-1-staple")


@pytest.mark.parametrize(
    "change", [{"old": "wrong"}, {"again": "different-good-1"}, {"new": "short", "again": "short"}, {"old": ""}]
)
def test_a_wrong_change_says_so_and_changes_nothing(tenant, change):
    viktor = person("viktor", tenant)
    here, there = signed_in(viktor), signed_in(viktor)
    form = {"old": PASSWORD, "new": "another-good-1-staple", "again": "another-good-1-staple"} | change
    answer = here.post("/account/", form)
    assert answer.status_code == 400
    assert "b-field-error" in answer.content.decode()
    viktor.refresh_from_db()
    assert viktor.check_password(PASSWORD)
    assert get(there, "/jobs/") == 200


def test_the_present_password_is_not_guessed_at_will(tenant):
    client = signed_in(person("viktor", tenant))
    codes = [client.post("/account/", {"old": str(k), "new": "x", "again": "x"}).status_code for k in range(25)]
    assert codes[-1] == 429


def test_one_session_or_all_others_are_ended_and_nobody_elses(tenant):
    viktor, vera = person("viktor", tenant), person("vera", tenant)
    here, there, third, hers = signed_in(viktor), signed_in(viktor), signed_in(viktor), signed_in(vera)
    assert here.get("/account/").content.decode().count("End the session from") == 2
    number = SignIn.objects.get(session_key=there.session.session_key).pk
    assert hers.post(f"/account/sessions/{number}/end").status_code == 404
    assert here.post(f"/account/sessions/{number}/end").status_code == 302
    assert [get(client, "/jobs/") for client in (here, there, third, hers)] == [200, 302, 200, 200]
    here.post("/account/sessions/end")
    assert [get(client, "/jobs/") for client in (here, third, hers)] == [200, 302, 200]


def test_a_sign_out_forgets_its_session(tenant):
    client = signed_in(person("viktor", tenant))
    assert SignIn.objects.count() == 1
    client.post("/logout")
    assert not SignIn.objects.exists()


@pytest.mark.parametrize("path", ["/account/", "/account/sessions/end", "/tenants/vision-lab/invite"])
def test_posts_need_the_csrf_token(tenant, manager, path):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(manager, backend="django.contrib.auth.backends.ModelBackend")
    assert strict.post(path, {}).status_code == 403
