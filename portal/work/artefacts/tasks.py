from celery import shared_task

from portal.work.artefacts.services.moving import artefacts_move, remote_sweep
from portal.work.artefacts.services.removing import artefacts_expire, artefacts_sweep


@shared_task(name="artefacts.expire", expires=3000)
def artefacts_expire_task() -> dict[str, int]:
    return {"expired": artefacts_expire(), "swept": artefacts_sweep()}


@shared_task(name="artefacts.move", expires=60)
def artefacts_move_task() -> int:
    return artefacts_move()


@shared_task(name="artefacts.sweep_store", expires=3000)
def artefacts_sweep_store_task() -> int:
    return remote_sweep()
