from celery import shared_task

from portal.cluster.telemetry import telemetry_roll_up


@shared_task(name="cluster.roll_up")
def roll_up() -> int:
    return telemetry_roll_up()
