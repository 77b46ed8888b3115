from celery import shared_task

from portal.jobs.services import reconcile


@shared_task(name="jobs.reconcile", expires=30)
def jobs_reconcile() -> dict[str, int]:
    return reconcile()
