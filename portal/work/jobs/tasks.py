from celery import shared_task

from portal.work.jobs.idle.looking import idle_look
from portal.work.jobs.services.asked.bringing import IN_USE
from portal.work.jobs.services.reconciling import reconcile
from portal.work.jobs.services.submission import idempotency_keys_expire
from portal.work.uploads.services import uploads_expire

shared_task(reconcile, name="jobs.reconcile", expires=30)
shared_task(idle_look, name="jobs.idle", expires=30)
shared_task(idempotency_keys_expire, name="jobs.expire")


@shared_task(name="jobs.uploads_expire")
def jobs_uploads_expire() -> int:
    return uploads_expire(in_use=IN_USE)
