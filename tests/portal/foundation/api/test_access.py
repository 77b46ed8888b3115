"""Tokens, scopes, sessions: permitted callers, and the answers to the others."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from portal.api_urls import urlpatterns
from portal.people.tenants.models import ApiToken, AuditEvent
from portal.people.tenants.services import SCOPES, token_create, token_revoke
from tests.portal.foundation.api.conftest import Caller, refusal

pytestmark = pytest.mark.django_db

OPEN = {"api-schema", "api-docs"}
READS = {
    "api-me": None,
    "api-jobs": "jobs:read",
    "api-job": "jobs:read",
    "api-job-description": "jobs:read",
    "api-job-logs": "jobs:read",
    "api-job-explain": "jobs:read",
    "api-job-similar": "jobs:read",
    "api-job-offers": "jobs:read",
    "api-members": "jobs:read",
    "api-invitations": "jobs:read",
    "api-usage": "jobs:read",
    "api-templates": "jobs:read",
    "api-template": "jobs:read",
    "api-template-versions": "jobs:read",
    "api-job-artefacts": "jobs:read",
    "api-job-artefacts-tar": "jobs:read",
    "api-job-artefact": "jobs:read",
    "api-secrets": "jobs:read",
    "api-uploads": "jobs:read",
    "api-upload": "jobs:read",
    "api-nodes": "cluster:read",
    "api-node": "cluster:read",
    "api-engines": "cluster:read",
    "api-engine": "cluster:read",
    "api-rounds": "cluster:read",
    "api-round": "cluster:read",
    "api-planning": "cluster:read",
    "api-metrics": "cluster:read",
    "api-neighbours": "operator",
    "api-sharing": "operator",
    "api-sharing-decisions": "operator",
    "api-simulations": "simulations:read",
    "api-simulation": "simulations:read",
    "api-simulation-report": "simulations:read",
    "api-traces": "simulations:read",
    "api-trace": "simulations:read",
}
WRITES = {
    "api-jobs": "jobs:write",
    "api-job-offers": "jobs:write",
    "api-secrets": "jobs:write",
    "api-uploads": "jobs:write",
    "api-job-cancel": "jobs:write",
    "api-job-hold": "jobs:write",
    "api-job-release": "jobs:write",
    "api-job-keep": "jobs:write",
    "api-job-requeue": "jobs:write",
    "api-job-retry": "jobs:write",
    "api-templates": "jobs:write",
    "api-template-submit": "jobs:write",
    "api-template-plan": "jobs:write",
    "api-invitations": "members:write",
    "api-node-drain": "operator",
    "api-node-resume": "operator",
    "api-node-dead": "operator",
    "api-gpu-cordon": "operator",
    "api-gpu-resume": "operator",
    "api-jobs-plan": "jobs:write",
    "api-jobs-import": "jobs:write",
    "api-simulations": "simulations:write",
    "api-simulation-cancel": "simulations:write",
    "api-simulation-share": "simulations:write",
    "api-traces": "simulations:write",
    "api-traces-history": "simulations:write",
    "api-trace-share": "simulations:write",
}


OTHERS = {
    "api-upload-content": ("PUT", "jobs:write"),
    "api-secret": ("DELETE", "jobs:write"),
    "api-member": ("PATCH", "members:write"),
    "api-invitation": ("DELETE", "members:write"),
}
"""Those that take neither GET nor POST: a method, and its scope."""


def path_of(name):
    from django.urls import reverse

    pattern = next(each for each in urlpatterns if each.name == name)
    values = dict.fromkeys(pattern.pattern.converters, "1")
    return reverse(name, kwargs=values)


def test_every_route_is_listed_here():
    assert {each.name for each in urlpatterns} == OPEN | set(READS) | set(WRITES) | set(OTHERS)
    assert get_resolver().resolve("/healthz").url_name == "healthz"


def test_nobody_gets_in_and_is_told_how(world, unchanged, subtests):
    for name, method in [(n, "GET") for n in READS] + [(n, "POST") for n in WRITES]:
        with subtests.test(name=name, method=method):
            answer = world.nobody(method, path_of(name), {} if method == "POST" else None)
            refusal(answer, 401, "not_authenticated", "Authorization")
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_reads_need_their_scope(world, subtests):
    for name, scope in READS.items():
        with subtests.test(name=name):
            others = [each for each in SCOPES if each != scope]
            caller = world.caller("root", scopes=others)
            if scope is None:
                assert caller("GET", path_of(name)).status_code == 200
            else:
                assert scope in refusal(caller("GET", path_of(name)), 403, "missing_scope")["detail"]
                assert world.caller("root", scopes=[scope])("GET", path_of(name)).status_code in {200, 404}


def test_changes_need_their_scope(world, unchanged, subtests):
    for name, scope in WRITES.items():
        with subtests.test(name=name):
            others = [each for each in SCOPES if each != scope]
            token, secret = token_create(user=world.users["root"], name="x", scopes=others, actor=None)
            AuditEvent.objects.filter(target=f"token:{token.pk}").delete()
            refusal(Caller(secret)("POST", path_of(name), {}), 403, "missing_scope")


def test_the_others_need_their_scope(world, subtests):
    for name, (method, scope) in OTHERS.items():
        with subtests.test(name=name):
            reader = world.caller("root", scopes=[each for each in SCOPES if each != scope])
            refusal(world.nobody(method, path_of(name), {}), 401, "not_authenticated", "Authorization")
            assert scope in refusal(reader(method, path_of(name), {}), 403, "missing_scope")["detail"]


def test_only_operators_act_on_nodes(world, unchanged, subtests):
    for verb in ["drain", "resume", "dead", "gpus/0/cordon", "gpus/0/resume"]:
        with subtests.test(verb=verb):
            refusal(world.manager("POST", f"/nodes/rtx-01/{verb}", {"reason": "x"}), 403, "operator_only")


def test_a_token_of_a_former_operator_loses_its_power(world):
    world.users["root"].is_staff = False
    world.users["root"].save()
    refusal(world.operator("POST", "/nodes/rtx-01/resume"), 403, "operator_only")


def test_other_schemes(world, subtests):
    for header in ["Basic bGVuYTp4", "Bearer", "berth_x", "Token berth_x", ""]:
        with subtests.test(header=header):
            code = "bad_token" if header == "Bearer" else "not_authenticated"
            refusal(Client(headers={"Authorization": header}).get("/api/v1/me"), 401, code)


def test_unknown_tokens(world, subtests):
    for secret in ["berth_nonsense", "x" * 5000, "berth_\u00e9", "a b c", "' OR 1=1 --"]:
        with subtests.test(secret=secret):
            refusal(Caller(secret)("GET", "/me"), 401, "bad_token", "Authorization")


def test_revoked_expired_and_inactive(world):
    caller = world.caller("lena")
    token_revoke(token=caller.token, actor=None)
    refusal(caller("GET", "/me"), 401, "bad_token")

    caller = world.caller("lena", expires_at=timezone.now() + timedelta(hours=1))
    assert caller("GET", "/me").status_code == 200
    ApiToken.objects.filter(pk=caller.token.pk).update(expires_at=timezone.now())
    refusal(caller("GET", "/me"), 401, "token_expired")

    world.users["otto"].is_active = False
    world.users["otto"].save()
    refusal(world.outsider("GET", "/me"), 401, "bad_token")


def test_a_node_token_opens_nothing_here(world):
    from portal.people.tenants.services import secret_digest

    world.nodes[0].token_digest = secret_digest("berthnode_x")
    world.nodes[0].save()
    refusal(Caller("berthnode_x")("GET", "/nodes"), 401, "bad_token")


def test_last_use_is_noted_at_most_once_a_minute(world):
    caller = world.caller("lena")
    caller("GET", "/me")
    first = ApiToken.objects.get(pk=caller.token.pk).last_used_at
    caller("GET", "/me")
    assert ApiToken.objects.get(pk=caller.token.pk).last_used_at == first
    ApiToken.objects.filter(pk=caller.token.pk).update(last_used_at=first - timedelta(seconds=61))
    caller("GET", "/me")
    assert ApiToken.objects.get(pk=caller.token.pk).last_used_at >= first


def test_the_signed_in_browser_may_try_with_its_csrf_token(world):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.users["lena"], backend="django.contrib.auth.backends.ModelBackend")
    me = browser.get("/api/v1/me").json()
    assert (me["username"], me["token"]) == ("lena", None)
    body = {"data": '{"command": "true"}', "content_type": "application/json"}
    refusal(browser.post("/api/v1/jobs", **body), 403, "csrf_failed")
    browser.cookies["csrftoken"] = "a" * 32
    headers = {"X-CSRFToken": "a" * 32}
    assert browser.post("/api/v1/jobs", **body, headers=headers).status_code == 201
    refusal(browser.post("/api/v1/jobs", {"command": "x"}, headers=headers), 415, "unsupported_media_type")


def test_me(world):
    tenant = world.tenants["vision-lab"]
    tenant.gpu_quota = 8
    tenant.save()
    world.owner.submit()
    world.owner.submit(array={"size": 5})
    me = world.manager("GET", "/me").json()
    assert me["username"] == "mona"
    assert me["token"]["scopes"] == ["jobs:read", "jobs:write", "cluster:read"]
    (mine,) = me["tenants"]
    assert (mine["name"], mine["role"], mine["gpus"]) == ("vision-lab", "manager", {"quota": 8, "used": 0})
    assert mine["queued_jobs"] == {"quota": None, "used": 6}
    assert [t["role"] for t in world.operator("GET", "/me").json()["tenants"]] == ["operator", "operator"]
