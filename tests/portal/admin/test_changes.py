"""An operator's changes go through services: they are in the audit trail, and a refused one changes nothing."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import JoinToken, Node
from portal.people.tenants.models import ApiToken, AuditEvent, Membership, Tenant, User
from portal.people.tenants.services import token_create
from portal.work.jobs.services.submission import job_submit
from tests.portal.admin.conftest import PASSWORD


def do(console, kind, name, *objects, **values):
    """Follow a command's page: it must show before it does."""
    ids = "&".join(f"id={obj.pk}" for obj in objects)
    url = f"{reverse(f'admin:{kind}_do', args=[name])}?{ids}"
    assert console.get(url).status_code == 200
    return console.post(url, values, follow=True)


def actions():
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


def test_the_trail_says_what_its_targets_are_called(console, node, member):
    listed = console.get(reverse("admin:tenants_auditevent_changelist")).content.decode()
    for name in (f"node:{node.pk} (n1)", f"user:{member.pk} (mia)", f"tenant:{member.tenants.get().pk} (vision-lab)"):
        assert name in listed
        assert name.partition("(")[2].rstrip(")") in console.get(reverse("admin:index")).content.decode()
    one = AuditEvent.objects.get(action="node.register")
    assert f"node:{node.pk} (n1)" in console.get(f"/admin/tenants/auditevent/{one.pk}/change/").content.decode()
    gone = AuditEvent.objects.create(actor_name="olga", action="node.drain", target="node:999999")
    assert "node:999999" in console.get(f"/admin/tenants/auditevent/{gone.pk}/change/").content.decode()


def inline(*rows):
    """The memberships' form set: (membership id or '', user, role, delete)."""
    data = {"memberships-TOTAL_FORMS": len(rows), "memberships-INITIAL_FORMS": sum(bool(row[0]) for row in rows)}
    for index, (pk, user, role, delete) in enumerate(rows):
        data |= {
            f"memberships-{index}-{name}": value
            for name, value in {"id": pk, "user": user.username, "role": role, "DELETE": "on" if delete else ""}.items()
        }
    return data


def test_tenant_is_made_and_changed(console, operator):
    console.post(reverse("admin:tenants_tenant_add"), {"name": "nlp-startup", "weight": 2, "gpu_quota": 8} | inline())
    tenant = Tenant.objects.get()
    assert (tenant.weight, tenant.gpu_quota, tenant.core_quota) == (2, 8, None)
    assert actions()[-1] == "tenant.create"
    url = reverse("admin:tenants_tenant_change", args=[tenant.pk])
    console.post(url, {"name": "other", "weight": 3, "gpu_quota": "", "is_active": ""} | inline())
    tenant.refresh_from_db()
    assert (tenant.name, tenant.weight, tenant.gpu_quota, tenant.is_active) == ("nlp-startup", 3, None, False)
    event = AuditEvent.objects.first()
    assert event.actor == operator
    assert event.detail == {"weight": [2.0, 3.0], "gpu_quota": [8, None], "is_active": [True, False]}


@pytest.mark.parametrize("values", [{"name": "Bad Name", "weight": 1}, {"name": "ok", "weight": 0}])
def test_bad_tenant_changes_nothing(console, values):
    before = actions()
    assert console.post(reverse("admin:tenants_tenant_add"), values | inline()).status_code == 200
    assert not Tenant.objects.exists()
    assert actions() == before


def test_members_are_added_changed_and_removed(console, operator, member, tenant):
    url = reverse("admin:tenants_tenant_change", args=[tenant.pk])
    row = Membership.objects.get()
    token_create(user=member, tenant=tenant, name="ci", scopes=["jobs:read"], actor=member)
    keep = {"weight": 1, "is_active": "on"}
    console.post(url, keep | inline((row.pk, member, "manager", False), ("", operator, "member", False)))
    assert set(Membership.objects.values_list("user__username", "role")) == {("mia", "manager"), ("olga", "member")}
    assert actions()[-2:] == ["membership.set", "membership.set"]
    row = Membership.objects.get(user=member)
    other = Membership.objects.get(user=operator)
    console.post(url, keep | inline((row.pk, member, "manager", True), (other.pk, operator, "member", False)))
    assert list(Membership.objects.values_list("user__username", flat=True)) == ["olga"]
    assert actions()[-2:] == ["token.revoke", "membership.remove"]


def test_user_is_made_changed_and_deactivated(console):
    values = {"username": "nora", "email": "", "password": PASSWORD, "is_staff": ""}
    console.post(reverse("admin:tenants_user_add"), values)
    user = User.objects.get(username="nora")
    assert user.check_password(PASSWORD)
    assert not user.is_staff
    console.post(reverse("admin:tenants_user_change", args=[user.pk]), {"email": "n@x.org", "is_staff": "on"})
    user.refresh_from_db()
    assert (user.email, user.is_operator, user.is_superuser) == ("n@x.org", True, True)
    do(console, "tenants_user", "deactivate", user)
    user.refresh_from_db()
    assert not user.is_active
    assert actions()[-3:] == ["user.create", "user.update", "user.update"]


def test_weak_password_makes_no_user(console):
    page = console.post(reverse("admin:tenants_user_add"), {"username": "nora", "password": "password"})
    assert page.status_code == 200
    assert not User.objects.filter(username="nora").exists()


def test_last_operator_stays(console, operator):
    page = do(console, "tenants_user", "deactivate", operator)
    assert "last active operator" in page.content.decode()
    operator.refresh_from_db()
    assert operator.is_active
    assert "user.update" not in actions()


def test_password_is_reset_and_shown_once(console, member):
    page = do(console, "tenants_user", "reset-password", member, password="")
    secret = page.content.decode().split("shown this once: ")[1].split("<")[0].strip()
    member.refresh_from_db()
    assert member.check_password(secret)
    assert secret not in console.get(reverse("admin:tenants_user_change", args=[member.pk])).content.decode()
    assert secret not in str(AuditEvent.objects.first().detail)
    assert actions()[-1] == "user.password-reset"


def test_token_is_revoked(console, member):
    token, _ = token_create(user=member, name="ci", scopes=["jobs:read"], actor=member)
    do(console, "tenants_apitoken", "revoke", token)
    assert ApiToken.objects.get().revoked_at
    assert actions()[-1] == "token.revoke"


def test_node_is_drained_resumed_and_its_token_revoked(console, node):
    page = do(console, "cluster_node", "drain", node, reason="")
    assert page.status_code == 200
    assert Node.objects.get().drained_at is None
    do(console, "cluster_node", "drain", node, reason="new fan")
    assert Node.objects.get().drain_reason == "new fan"
    do(console, "cluster_node", "resume", node)
    assert Node.objects.get().drained_at is None
    do(console, "cluster_node", "revoke-token", node)
    assert Node.objects.get().token_revoked_at
    assert actions()[-3:] == ["node.drained", "node.resumed", "node.token-revoked"]


def test_node_in_contact_is_not_declared_dead(console, node):
    page = do(console, "cluster_node", "declare-dead", node, reason="gone")
    assert "is in contact" in page.content.decode()
    assert Node.objects.get().dead_at is None
    Node.objects.update(last_contact_at=timezone.now() - timedelta(hours=1))
    do(console, "cluster_node", "declare-dead", node, reason="burnt")
    assert Node.objects.get().dead_at
    assert actions()[-1] == "node.declared-dead"


def test_join_token_is_shown_once_with_its_line(console, operator):
    url = reverse("admin:cluster_jointoken_add")
    page = console.post(url, {"name": "n9", "hours": 2, "uses": 1})
    line = page.content.decode().split('id="join-line">')[1].split("<")[0]
    assert line.startswith("./berth node --join http")
    assert "--token berthjoin_" in line
    assert " --name n9" in line
    assert "no-store" in page.headers["Cache-Control"]
    made = JoinToken.objects.get()
    assert (made.node_name, made.created_by) == ("n9", operator)
    assert "berthjoin_" not in console.get(reverse("admin:cluster_jointoken_changelist")).content.decode()
    do(console, "cluster_jointoken", "revoke", made)
    assert JoinToken.objects.get().uses_left == 0
    assert actions()[-2:] == ["join-token.create", "join-token.revoke"]


def test_bad_join_token_is_not_made(console):
    assert console.post(reverse("admin:cluster_jointoken_add"), {"hours": 0, "uses": 1}).status_code == 200
    assert not JoinToken.objects.exists()


def test_relative_speed_is_set(console, node):
    url = reverse("admin:cluster_gputype_change", args=[node.gpu_type_id])
    console.post(url, {"relative_speed": 2.5, "share_weight": 1})
    assert Node.objects.get().gpu_type.relative_speed == 2.5
    assert AuditEvent.objects.first().detail == {"name": "V100", "relative_speed": [1.0, 2.5]}
    console.post(url, {"relative_speed": -1, "share_weight": 1})
    assert Node.objects.get().gpu_type.relative_speed == 2.5


def test_a_types_weight_in_shares_is_set(console, node):
    url = reverse("admin:cluster_gputype_change", args=[node.gpu_type_id])
    console.post(url, {"relative_speed": 1, "share_weight": 0.5})
    assert Node.objects.get().gpu_type.share_weight == 0.5
    assert AuditEvent.objects.first().detail == {"name": "V100", "share_weight": [1.0, 0.5]}
    console.post(url, {"relative_speed": 1, "share_weight": 0})
    assert Node.objects.get().gpu_type.share_weight == 0.5


def test_jobs_are_held_released_and_cancelled_in_bulk(console, member, job):
    other = job_submit(user=member, description={"name": "b", "command": "true", "gpus": 0})
    page = console.post(
        reverse("admin:jobs_job_changelist"), {"action": "hold", "_selected_action": [job.pk, other.pk]}
    )
    assert page.status_code == 302
    assert console.post(page.url).status_code == 302
    assert {one.state for one in (type(job).objects.all())} == {"HELD"}
    do(console, "jobs_job", "release", job)
    do(console, "jobs_job", "cancel", job, other)
    assert {one.state for one in (type(job).objects.all())} == {"CANCELLED"}
    page = do(console, "jobs_job", "cancel", job)
    assert "has ended" in page.content.decode()
    assert actions()[-5:] == ["job.hold", "job.hold", "job.release", "job.cancel", "job.cancel"]


def test_commands_are_for_operators_only(console, member, job):
    url = f"{reverse('admin:jobs_job_do', args=['cancel'])}?id={job.pk}"
    console.force_login(member)
    assert console.post(url).status_code == 302
    job.refresh_from_db()
    assert job.state == "PENDING"


@pytest.mark.parametrize(
    ("ids", "status"), [("", 302), ("id=x", 302), ("id=99999999999999999999", 302), ("id=-1", 302), ("id=%00", 400)]
)
def test_odd_choices_change_nothing(console, ids, status):
    assert console.get(f"{reverse('admin:jobs_job_do', args=['cancel'])}?{ids}").status_code == status


def test_read_only_pages_take_no_change(console, job):
    assert console.post(reverse("admin:jobs_job_change", args=[job.pk]), {"name": "mine"}).status_code == 403
    assert console.get(reverse("admin:jobs_job_add")).status_code == 403
