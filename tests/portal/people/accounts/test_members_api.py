"""Members and invitations over REST and from the command line: the rules of the tenant's page (story 15)."""

import pytest

from portal.people.accounts.models import Invitation
from portal.people.tenants.models import ApiToken, AuditEvent, Membership
from portal.people.tenants.services import membership_add
from tests.client.conftest import InProcess, berth, cli, own_settings, transport  # noqa: F401 - fixtures
from tests.portal.foundation.api.conftest import Caller, refusal, unchanged, world  # noqa: F401 - fixtures

PATH = "/tenants/vision-lab"


@pytest.fixture
def mona(world):  # noqa: F811
    """The manager, with a token that may change members."""
    return world.caller("mona", scopes=["jobs:read", "members:write"])


def roles():
    return dict(Membership.objects.filter(tenant__name="vision-lab").values_list("user__username", "role"))


def test_invite_make_a_viewer_remove(world, mona, client):  # noqa: F811
    """Story 15 over REST: the link works once, and a removed member's tokens die with the membership."""
    made = mona("POST", f"{PATH}/invitations", {"role": "member", "days": 1})
    assert made.status_code == 201
    link = made.json()["url"]
    assert link.startswith("http://testserver/invitations/")
    assert mona.get(f"{PATH}/invitations").json()["results"][0] == {
        name: value for name, value in made.json().items() if name != "url"
    }
    client.force_login(world.users["otto"], backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(link.removeprefix("http://testserver")).status_code == 302
    assert roles()["otto"] == "member"
    assert mona.get(f"{PATH}/invitations").json()["count"] == 0
    own = world.caller("otto", tenant=world.tenants["vision-lab"])
    assert mona("PATCH", f"{PATH}/members/otto", {"role": "viewer"}).json() == {"username": "otto", "role": "viewer"}
    refusal(own("POST", "/jobs", {"command": "true"}), 403, "viewer")
    assert own.get("/jobs").status_code == 200
    assert mona("DELETE", f"{PATH}/members/otto").status_code == 204
    refusal(own.get("/jobs"), 401, "bad_token")
    assert world.outsider.get("/jobs").status_code == 200, "of the other tenant nothing ended"
    assert client.get("/jobs/").status_code == 302, "the session did"
    actions = ["invitation.make", "membership.set", "membership.set", "token.revoke", "membership.remove"]
    found = AuditEvent.objects.filter(action__in=actions, tenant=world.tenants["vision-lab"])
    assert set(found.values_list("action", flat=True)) == set(actions)


WRONG = [
    ("PATCH", "members/tim", {}, 400, ("required", "role")),
    ("PATCH", "members/tim", {"role": "owner"}, 400, ("invalid_choice", "role")),
    ("PATCH", "members/tim", {"role": "viewer", "x": 1}, 400, ("unknown_field", "x")),
    ("PATCH", "members/otto", {"role": "viewer"}, 404, ("not_found", None)),
    ("PATCH", "members/a%00b", {"role": "viewer"}, 404, ("not_found", None)),
    ("PATCH", "members/mona", {"role": "viewer"}, 409, ("last_manager", None)),
    ("DELETE", "members/mona", None, 409, ("last_manager", None)),
    ("DELETE", "members/nobody", None, 404, ("not_found", None)),
    ("POST", "invitations", {"role": "member", "days": 2}, 400, ("invalid", "days")),
    ("POST", "invitations", {"role": "member", "days": "7"}, 400, ("wrong_type", "days")),
    ("POST", "invitations", {"role": "member", "days": 10**9}, 400, ("out_of_range", "days")),
    ("POST", "invitations", {"role": ["member"]}, 400, ("wrong_type", "role")),
    ("DELETE", "invitations/99", None, 404, ("not_found", None)),
    ("DELETE", "invitations/x", None, 404, ("not_found", None)),
]


def test_what_is_wrong_is_named_and_changes_nothing(world, mona, unchanged, subtests):  # noqa: F811
    for method, path, body, status, told in WRONG:
        with subtests.test(method=method, path=path, body=body):
            before = roles()
            found = refusal(mona(method, f"{PATH}/{path}", body), status)
            assert (found["code"], found["field"]) == told
            assert roles() == before
            assert not Invitation.objects.exists()


def test_a_token_of_one_tenant_opens_no_other(world):  # noqa: F811
    membership_add(user=world.users["mona"], tenant=world.tenants["speech-lab"], role="manager", actor=None)
    narrow = world.caller("mona", scopes=["jobs:read", "members:write"], tenant=world.tenants["vision-lab"])
    assert narrow.get(f"{PATH}/members").json()["count"] == 3
    foreign, missing = (narrow.get(f"/tenants/{name}/members") for name in ("speech-lab", "nothing"))
    assert refusal(foreign, 404) == refusal(missing, 404)
    assert refusal(narrow("DELETE", "/tenants/speech-lab/members/otto"), 404)
    assert narrow.get("/tenants/speech-lab/usage").status_code == 404


@pytest.mark.parametrize("name", ["owner", "outsider"])
def test_only_managers_change_members(world, name):  # noqa: F811
    caller = world.caller({"owner": "lena", "outsider": "otto"}[name])
    status = 403 if name == "owner" else 404
    for method, path, body in (
        ("PATCH", "members/tim", {"role": "viewer"}),
        ("DELETE", "members/tim", None),
        ("POST", "invitations", {"role": "manager"}),
        ("DELETE", "invitations/1", None),
        ("GET", "invitations", None),
    ):
        refusal(caller(method, f"{PATH}/{path}", body), status)
    assert caller("GET", f"{PATH}/members").status_code == (200 if name == "owner" else 404)


# ---- the command line ------------------------------------------------------------------------------------------------


def test_the_same_from_the_command_line(world, mona, cli):  # noqa: F811
    assert cli("members").out.split() == ["user", "role", "lena", "member", "mona", "manager", "tim", "member"]
    assert "tim is a viewer of vision-lab now" in cli("members", "role", "tim", "viewer", caller=mona).out
    made = cli("members", "invite", "--role", "viewer", "--days", 30, caller=mona)
    assert made.out.startswith("http://testserver/invitations/")
    assert "it is not shown again" in made.err
    (open_,) = cli("members", "invitations", "-o", "json", caller=mona).json
    cli("members", "withdraw", open_["number"], caller=mona)
    assert cli("members", "invitations", caller=mona).out == "no invitation is open\n"
    assert "tokens and sessions have ended" in cli("members", "remove", "tim", caller=mona).out
    assert roles() == {"lena": "member", "mona": "manager"}
    assert not ApiToken.objects.filter(user__username="tim", revoked_at=None).exists()
    assert "last_manager" not in cli("members", "role", "mona", "viewer", caller=mona, code=2).err
    for wrong in (["role", "tim"], ["remove"], ["list", "tim"], ["withdraw"], ["invite", "tim"]):
        assert "berth members" in cli("members", *wrong, code=2).err
    assert "members:write" in cli("members", "remove", "lena", code=2).err


def test_usage_by_person_from_the_command_line(world, cli):  # noqa: F811
    assert "nothing was used in that time" in cli("usage", "vision-lab").out
    world.owner.submit(gpus=1)
    assert cli("usage", "-o", "csv").out.splitlines() == [
        "tenant,user,category,attempts,gpu_hours,idle_gpu_hours,unmeasured_gpu_hours,core_hours,since,until"
    ]
    assert cli("usage", "vision-lab", "-o", "json").json["total"]["gpu_hours"] == 0
    assert "time zone" in cli("usage", "vision-lab", "--since", "2026-01-01", code=2).err
    assert "No such tenant" in cli("usage", "speech-lab", code=2).err
    assert "vision-lab" in cli("usage").out
