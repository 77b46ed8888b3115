from celery import shared_task

from portal.cluster.services.contact import node_events_expire
from portal.cluster.telemetry_packing import telemetry_pack, telemetry_roll_up, telemetry_thin

PACK_LIMIT_S = 12.0
"""The longest time that a run packs; the next one, a minute later, goes on. Plannings wait for the same workers.

Ten minutes of a node with 8 GPUs take 0.04 to 0.06 s of processor: 1 000 nodes need half of the time of ten runs.
"""


@shared_task(name="cluster.pack")
def pack() -> int:
    return telemetry_pack(limit_s=PACK_LIMIT_S) + telemetry_thin()


@shared_task(name="cluster.roll_up")
def roll_up() -> int:
    return telemetry_roll_up() + node_events_expire()
