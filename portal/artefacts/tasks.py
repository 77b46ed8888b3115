from celery import shared_task

from portal.artefacts.services import artefacts_expire, artefacts_sweep


@shared_task(name="artefacts.expire", expires=3000)
def artefacts_expire_task() -> dict[str, int]:
    return {"expired": artefacts_expire(), "swept": artefacts_sweep()}
