"""Secrets of a tenant: set by members, removed by managers, named by jobs, shown to nobody but the job's node."""

import pytest

from portal.cluster.models import Node
from portal.people.tenants.models import AuditEvent, Membership, Tenant, User
from portal.work.jobs.fields.handing import part_secrets
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import part_spec
from portal.work.secrets.models import Secret
from portal.work.secrets.services import MOST_SECRETS, secret_set
from tests.portal.foundation.api.conftest import refusal, unchanged, world  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db
VALUE = "hf_0123456789abcdef"


def set_one(caller, name="hf-token", value=VALUE, **more):
    answer = caller("POST", "/secrets", {"name": name, "value": value, **more})
    assert answer.status_code == 201, answer.content
    return answer


def test_it_is_sealed_and_no_answer_holds_it(world):  # noqa: F811
    said = set_one(world.owner)
    row = Secret.objects.get()
    assert row.sealed.startswith("s1:")
    assert VALUE not in row.sealed
    assert said.json() == {
        "name": "hf-token",
        "tenant": "vision-lab",
        "changed_by": "lena",
        "changed_at": said.json()["changed_at"],
    }
    listed = world.teammate.get("/secrets")
    assert [row["name"] for row in listed.json()["results"]] == ["hf-token"]
    job = world.owner.submit(secrets={"HF_TOKEN": "hf-token"})
    assert job["secrets"] == {"HF_TOKEN": "hf-token"}
    shown = [said, listed, world.owner.get(f"/jobs/{job['number']}"), world.owner.get(f"/jobs/{job['number']}/explain")]
    assert not any(VALUE.encode() in answer.content for answer in shown)
    assert VALUE not in str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.filter(action="secret.set", detail={"name": "hf-token"}).count() == 1


def test_members_set_managers_remove_and_outsiders_see_nothing(world):  # noqa: F811
    set_one(world.owner)
    set_one(world.teammate, value=VALUE + "2")
    assert Secret.objects.get().changed_by == "tim"
    refusal(world.owner("DELETE", "/secrets/hf-token"), 403, "manager_only")
    assert world.outsider.get("/secrets").json()["count"] == 0
    assert world.outsider.get("/secrets", tenant="vision-lab").json()["count"] == 0
    body = {"name": "x", "value": VALUE, "tenant": "vision-lab"}
    refusal(world.outsider("POST", "/secrets", body), 400, "unknown_tenant", "tenant")
    Membership.objects.filter(user=User.objects.get(username="tim")).update(role="viewer")
    refusal(world.teammate("POST", "/secrets", {"name": "hf-token", "value": VALUE}), 403, "viewer")
    assert world.manager("DELETE", "/secrets/hf-token").status_code == 204
    refusal(world.manager("DELETE", "/secrets/hf-token"), 404, "not_found")
    assert AuditEvent.objects.filter(action="secret.remove").count() == 1


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"name": "x"}, "wrong_type", "value"),
        ({"value": VALUE}, "wrong_type", "name"),
        ({"name": "../x", "value": VALUE}, "bad_name", "name"),
        ({"name": "-x", "value": VALUE}, "bad_name", "name"),
        ({"name": "x", "value": "1234567"}, "too_short", "value"),
        ({"name": "x", "value": "a\nb\nc\nd\ne\nf\n"}, "too_short", "value"),
        ({"name": "x", "value": "12345678\0"}, "null_character", "value"),
        ({"name": "x", "value": "x" * 32769}, "too_long", "value"),
        ({"name": "x", "value": VALUE, "more": 1}, "unknown_field", "more"),
    ],
)
def test_what_is_wrong_is_refused_and_never_repeated(world, body, code, field):  # noqa: F811
    answer = world.owner("POST", "/secrets", body)
    refusal(answer, 400, code, field)
    assert VALUE.encode() not in answer.content
    assert not Secret.objects.exists()


def test_a_tenant_has_so_many_and_may_change_them_all_the_same(world):  # noqa: F811
    lena, tenant = User.objects.get(username="lena"), Tenant.objects.get(name="vision-lab")
    Secret.objects.bulk_create(
        Secret(tenant=tenant, name=f"s{n}", sealed="s1:", changed_by="lena", changed_at="2026-01-01T00:00Z")
        for n in range(MOST_SECRETS)
    )
    refusal(world.owner("POST", "/secrets", {"name": "more", "value": VALUE}), 409, "too_many", "name")
    assert secret_set(actor=lena, tenant=tenant, name="s0", value=VALUE).name == "s0"


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"secrets": {"HF_TOKEN": "none"}}, "unknown_secret", "secrets"),
        ({"secrets": {"HF_TOKEN": "another"}}, "unknown_secret", "secrets"),
        ({"secrets": {"BERTH_X": "hf-token"}}, "env_key_forbidden", "secrets"),
        ({"secrets": {"HF_TOKEN": "no name"}}, "bad_name", "secrets.HF_TOKEN"),
        ({"secrets": ["hf-token"]}, "wrong_type", "secrets"),
        ({"secrets": {"A": "hf-token"}, "environment": {"A": "1"}}, "duplicate", "secrets"),
        ({"code": {"git": "https://host/a/b.git", "secret": "another"}}, "unknown_secret", "code.secret"),
    ],
)
def test_a_job_names_secrets_of_its_own_tenant_alone(world, fields, code, field):  # noqa: F811
    set_one(world.owner)
    set_one(world.outsider, name="another")
    refusal(world.owner("POST", "/jobs", {"command": "true"} | fields), 400, code, field)
    assert not Job.objects.exists()


def test_the_node_that_runs_it_gets_the_value_of_now_and_no_other_node(cluster):
    secret_set(actor=cluster.owner, tenant=cluster.tenant, name="hf-token", value=VALUE)
    attempt = cluster.started(secrets={"HF_TOKEN": "hf-token"}, environment={"A": "1"})
    spec = part_spec(node=cluster.node, key=attempt.key)
    assert (spec["secrets"], spec["code"], spec["environment"]) == (True, {}, {"A": "1"})
    secret_set(actor=cluster.owner, tenant=cluster.tenant, name="hf-token", value="another-value")
    given = part_secrets(node=cluster.node, key=attempt.key)
    assert given == {"environment": {"HF_TOKEN": "another-value"}, "code": ""}
    from portal.foundation.errors import BerthError, NotFound
    from tests.portal.given import node_make

    with pytest.raises(NotFound):
        part_secrets(node=node_make("n2"), key=attempt.key)
    Secret.objects.update(sealed="s1:broken")
    with pytest.raises(BerthError) as unreadable:
        part_secrets(node=cluster.node, key=attempt.key)
    assert unreadable.value.code == "secret_unreadable"
    assert "another signing key" in unreadable.value.detail
    Secret.objects.all().delete()
    with pytest.raises(BerthError) as gone:
        part_secrets(node=cluster.node, key=attempt.key)
    assert gone.value.detail.startswith("vision-lab has no secret 'hf-token'. Set it on the page of vision-lab")
    cluster.end(attempt)
    with pytest.raises(NotFound):
        part_secrets(node=cluster.node, key=attempt.key)


def test_a_node_is_told_which_secrets_are_the_build_s_and_by_which_names(cluster):
    secret_set(actor=cluster.owner, tenant=cluster.tenant, name="our-index", value="https://a:b-c-d-e@host/simple")
    Node.objects.update(software={"installer": "pip"})
    named = {"PIP_INDEX_URL": "our-index", "HF_TOKEN": "our-index"}
    job = cluster.submit(gpus=0, secrets=named, software={"requirements": "tinypack==1.0"})
    key = cluster.start(job, gpus=0).key
    spec = part_spec(node=cluster.node, key=key)
    assert (spec["secrets"], spec["build_secrets"]) == (True, {"PIP_INDEX_URL": "our-index"})
    assert "b-c-d-e" not in str(spec)
