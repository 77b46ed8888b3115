"""Keys of jobs and attempts: what nodes hear is no counted id, and what ran before there were keys keeps its name."""

import re

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.work.jobs.keys import KEY_PATTERN, key_new
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.selectors import part_spec, parts_wanted
from tests.portal import given


def test_a_key_fits_its_pattern_and_none_comes_twice():
    keys = {key_new() for _ in range(10_000)}
    assert len(keys) == 10_000
    assert all(re.fullmatch(KEY_PATTERN, key) and len(key) == 32 for key in keys)


def test_a_node_hears_keys_and_is_heard_by_them(cluster):
    attempt = cluster.started()
    (wanted,) = parts_wanted(node_id=cluster.node.pk)["attempts"]
    spec = part_spec(node=cluster.node, key=attempt.key)
    for heard in (wanted, spec):
        assert (heard["attempt"], heard["job"], heard["job_key"]) == (attempt.key, attempt.job_id, attempt.job.key)
    by_id = given.report(given.key_of(attempt) | {"attempt": str(attempt.pk)}, "running", pid=5)
    answer = given.heard(node=cluster.node, reports=[by_id], holding=[])
    assert [each["code"] for each in answer["refused"]] == ["unknown_part"]


def test_jobs_made_anew_with_an_old_number_have_another_key(cluster):
    """What a database counts anew after it lost its last rows, nodes do not take for what they knew by that number."""
    old = cluster.submit()
    number, key = old.pk, old.key
    Job.objects.filter(pk=number).delete()
    again = Job(
        pk=number, **{name: getattr(old, name) for name in ("tenant_id", "owner_id", "name", "gpus", "submitted_at")}
    )
    again.save(force_insert=True)
    assert Job.objects.get(pk=number).key != key


@pytest.mark.django_db(transaction=True)
def test_two_attempts_never_share_a_key(shared_cluster):
    one = shared_cluster.started()
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.create(
            job=shared_cluster.submit(),
            epoch=1,
            gpus=0,
            cores=1,
            rendezvous_port=1,
            created_at=timezone.now(),
            key=one.key,
        )
