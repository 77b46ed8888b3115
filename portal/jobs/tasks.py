from celery import shared_task

from portal.jobs.services import idempotency_keys_expire, reconcile


@shared_task(name="jobs.reconcile", expires=30)
def jobs_reconcile() -> dict[str, int]:
    return reconcile()


@shared_task(name="jobs.expire")
def jobs_expire() -> int:
    return idempotency_keys_expire()
