"""Invariant 8: a tenant never sees another's anything."""

import pytest
from django.apps import apps
from django.contrib.auth.models import AnonymousUser
from django.db.models import ForeignKey

from portal.foundation.errors import NotFound
from portal.people.tenants.models import ApiToken, AuditEvent, Tenant
from portal.people.tenants.services import audit_record, token_create
from portal.work.jobs.models import Job
from portal.work.jobs.querysets import JobQuerySet
from portal.work.jobs.selectors import job_get
from tests.portal import given

OURS = [app for app in apps.get_app_configs() if app.name.startswith("portal.")]
THROUGH = {
    # all users see them: a tenant may be named as the only one that is served there
    "Node",
    "Engine",
    # reached through the job, tenant or user that is asked for first
    "Explanation",
    "StartForecast",
    "Membership",
    "JobPayload",
    "JobText",
    "JobLabel",
    "JobDependency",
    "JobInput",
    "Attempt",
    "Allocation",
    "GpuAllocation",
    "LogChunk",
    "JobEvent",
    "IdempotencyKey",
    "Promise",
    "CoreTuning",
    "CoreSearch",
    "CoreStep",
    "Slowing",
    "JobApart",
    "JobOffers",
    "Looked",
    "JobColumns",
    "JobView",
    "Invitation",
    "Hook",
    "Happening",
    "Item",
    "IdleWatch",
    "LogTail",
    "LogMatch",
    "Message",
    "Holding",
    "UploadFile",
    "Artefact",
    "JobArtefacts",
    "TenantArtefacts",
    "LinkProbe",
    "JobProgress",
    "JobProfile",
    "AttemptSpeed",
    "AttemptDistilled",
    "PartOffset",
    "ShadowDecision",
    "TaskReading",
    "TaskMetric",
    # knowledge of a kind of job: the planner reads it, and no page shows it but beside a job of that kind
    "LinkVote",
    "Signature",
    "SignatureUse",
    "ThroughputCell",
    "PairSpeed",
}


def of_a_tenant(model, seen=()):
    """Whether a chain of foreign keys leads from a model to a tenant, users, nodes and engines apart: they are shared."""
    if model is Tenant:
        return True
    targets = [f.related_model for f in model._meta.get_fields() if isinstance(f, ForeignKey)]
    return any(
        t not in seen and t.__name__ not in {"User", "Node", "Engine"} and of_a_tenant(t, (*seen, model))
        for t in targets
    )


def test_every_model_of_a_tenant_has_visible_to_or_is_reached_through_one():
    models = [model for app in OURS for model in app.get_models()]
    assert {"jobs", "notifications", "artefacts", "estimation"} <= {model._meta.app_label for model in models}
    for model in models:
        if of_a_tenant(model) and model.__name__ not in THROUGH:
            assert hasattr(model.objects, "visible_to"), model
    assert {model.__name__ for model in models} >= THROUGH, "a model that is gone stays in no list"


@pytest.fixture
def people(cluster):
    other = Tenant.objects.create(name="speech-lab")
    return {
        "owner": cluster.owner,
        "teammate": given.member("tim", cluster.tenant),
        "outsider": given.member("otto", other),
        "operator": given.operator(),
        "anonymous": AnonymousUser(),
    }


EXPECTED = {"owner": True, "teammate": True, "outsider": False, "operator": True, "anonymous": False}


@pytest.mark.parametrize(("who", "sees"), EXPECTED.items())
def test_jobs_tenants_and_the_trail(cluster, people, who, sees):
    job = cluster.submit()
    user = people[who]
    assert Job.objects.visible_to(user).filter(pk=job.pk).exists() is sees
    assert Tenant.objects.visible_to(user).filter(pk=cluster.tenant.pk).exists() is sees
    assert AuditEvent.objects.visible_to(user).filter(target=f"job:{job.pk}").exists() is sees


@pytest.mark.parametrize("who", EXPECTED)
def test_tokens_are_their_owners_alone(cluster, people, who):
    token, _ = token_create(user=cluster.owner, name="ci", scopes=["jobs:read"], actor=cluster.owner)
    assert ApiToken.objects.visible_to(people[who]).filter(pk=token.pk).exists() is (who == "owner")


def test_events_of_no_tenant_are_for_operators(cluster, people):
    audit_record(actor=None, action="node.drained", target="node:1")
    assert not AuditEvent.objects.visible_to(cluster.owner).filter(target="node:1").exists()


def test_foreign_missing_and_malformed_ids_answer_alike(cluster, people):
    job = cluster.submit()
    answers = set()
    for job_id in (job.pk, job.pk + 1, "x", "-1", "9" * 30, "٣"):
        with pytest.raises(NotFound) as error:
            job_get(user=people["outsider"], job_id=job_id)
        answers.add(str(error.value))
    assert len(answers) == 1


def test_a_foreign_dependency_answers_as_a_missing_one(cluster, people):
    job = cluster.submit()
    details = set()
    for job_id in (job.pk, job.pk + 1000):
        with pytest.raises(Exception, match="you may not see it") as error:
            cluster.submit(user=people["outsider"], depends_on=[{"job": job_id, "kind": "ok"}])
        details.add(str(error.value).replace(str(job_id), "N"))
    assert len(details) == 1


def test_without_visible_to_an_outsider_sees_it(cluster, people, monkeypatch):
    job = cluster.submit()
    monkeypatch.setattr(JobQuerySet, "visible_to", lambda self, user: self)
    assert job_get(user=people["outsider"], job_id=job.pk) == job
