from celery import shared_task

from portal.work.artefacts.services.moving import artefacts_move, remote_sweep
from portal.work.artefacts.services.removing import artefacts_expire, artefacts_sweep

shared_task(artefacts_move, name="artefacts.move", expires=60)
shared_task(remote_sweep, name="artefacts.sweep_store", expires=3000)


@shared_task(name="artefacts.expire", expires=3000)
def artefacts_expire_task() -> dict[str, int]:
    return {"expired": artefacts_expire(), "swept": artefacts_sweep()}
