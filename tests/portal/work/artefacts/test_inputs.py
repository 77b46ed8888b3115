"""Jobs that begin with artefacts of earlier ones, and patterns of what they keep: what is refused, and what a node is told."""

import hashlib

import pytest
from django.test import Client

from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant
from portal.work.artefacts.selectors import ABSENT
from portal.work.artefacts.services.removing import artefacts_remove
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender

pytestmark = pytest.mark.django_db
SHA256 = hashlib.sha256(b"abc").hexdigest()


@pytest.fixture
def first(cluster):
    sender = Sender(cluster, cluster.running())
    sender.send("model/ckpt.pt", b"abc")
    cluster.end(sender.attempt)
    return sender.attempt.job


def inputs(job, path="model/ckpt.pt", **more):
    return {"inputs": [{"job": job.pk, "path": path, **more}]}


def ask(sender, path):
    return Client().get(f"/api/agent/v1/{path}", headers={"Authorization": f"Bearer {sender.secret}"})


def test_a_node_gets_the_input_by_its_hash_for_this_attempt_alone(cluster, first):
    later = Sender(cluster, cluster.running(**inputs(first, **{"as": "start/ckpt.pt"})))
    spec = ask(later, f"attempts/{later.attempt.key}/spec").json()
    assert spec["upload"] == [{"path": "start/ckpt.pt", "sha256": SHA256, "size_bytes": 3, "executable": False}]
    assert ask(later, f"attempts/{later.attempt.key}/content/{SHA256}").getvalue() == b"abc"
    without = Sender(cluster, cluster.running())
    assert ask(without, f"attempts/{without.attempt.key}/content/{SHA256}").status_code == 404


def test_an_input_that_was_removed_is_told_as_absent(cluster, first):
    later = Sender(cluster, cluster.running(**inputs(first)))
    artefacts_remove(job=first, actor=cluster.owner)
    spec = ask(later, f"attempts/{later.attempt.key}/spec").json()
    assert (spec["upload"][0]["path"], spec["upload"][0]["sha256"]) == ("ckpt.pt", ABSENT)
    assert ask(later, f"attempts/{later.attempt.key}/content/{ABSENT}").status_code == 404


def refused(cluster, **fields):
    with pytest.raises(BerthError) as found:
        cluster.submit(**fields)
    return found.value.code, found.value.field


def test_another_tenants_job_is_as_a_missing_one(cluster, first):
    other = Tenant.objects.create(name="nlp")
    given.member("lena", other)  # a member of both: the job is for nlp, the artefact vision-lab's
    assert refused(cluster, tenant="nlp", **inputs(first)) == ("unknown_input", "inputs")
    first.pk = 999_999
    assert refused(cluster, tenant="nlp", **inputs(first)) == ("unknown_input", "inputs")


def test_what_an_ended_job_did_not_keep_is_refused(cluster, first):
    assert refused(cluster, **inputs(first, "other.pt")) == ("input_missing", "inputs")


def test_what_a_running_job_may_keep_is_waited_for(cluster):
    sender = Sender(cluster, cluster.running())
    sender.tell(("a", 3, NS))
    wanted = inputs(sender.attempt.job, "a")
    assert refused(cluster, **wanted) == ("input_missing", "inputs")
    assert cluster.submit(depends_on=[sender.attempt.job_id], **wanted).state == "PENDING"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"inputs": [{"job": 1, "path": "../a"}]}, "bad_path"),
        ({"inputs": [{"job": 1, "path": "a", "as": "/etc/passwd"}]}, "bad_path"),
        ({"inputs": [{"job": 1, "path": "a", "as": "b/../../c"}]}, "bad_path"),
        ({"inputs": [{"job": 1, "path": "x/a"}, {"job": 2, "path": "y/a"}]}, "duplicate"),
        ({"inputs": [{"job": 1, "path": "a"}], "files": {"a": "text"}}, "duplicate"),
        ({"artefacts": ["../*"]}, "bad_path"),
        ({"artefacts": ["/etc/*"]}, "bad_path"),
        ({"artefacts": ["**/a/**"]}, "bad_path"),
        ({"artefacts": ["*.pt"], "working_directory": "/data"}, "not_with_absolute_directory"),
    ],
)
def test_what_leads_elsewhere_is_refused(cluster, fields, code):
    assert refused(cluster, **fields)[0] == code


def test_patterns_reach_the_node(cluster):
    sender = Sender(cluster, cluster.running(artefacts=["out/*.pt"]))
    assert ask(sender, f"attempts/{sender.attempt.key}/spec").json()["artefacts"] == {
        "patterns": ["out/*.pt"],
        "files": 10000,
    }
