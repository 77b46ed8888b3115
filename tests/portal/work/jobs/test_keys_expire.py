from datetime import timedelta

from django.utils import timezone

from portal.work.jobs.models import IdempotencyKey, Job
from portal.work.jobs.services.submission import idempotency_keys_expire, job_submit


def test_a_key_is_forgotten_after_a_week_and_its_job_is_not(cluster):
    body = {"command": "true", "gpus": 0}
    for key in ("old", "new"):
        job_submit(user=cluster.owner, description=body, idempotency_key=key)
    IdempotencyKey.objects.filter(key="old").update(created_at=timezone.now() - timedelta(days=8))
    assert idempotency_keys_expire() == 1
    assert IdempotencyKey.objects.get().key == "new"
    assert Job.objects.count() == 2
