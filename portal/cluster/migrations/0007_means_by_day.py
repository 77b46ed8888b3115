"""A node's five-minute means become one packed row a day. Frames not packed yet are lost when this is taken back."""

import json
import zlib
from collections import defaultdict
from datetime import UTC, datetime

from django.db import migrations

MEAN_S, DAY_S, SLOTS = 300, 86_400, 288


def _packed(value):
    packed = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)
    return len(packed).to_bytes(4, "big") + packed


def pack(apps, schema_editor):
    Mean = apps.get_model("cluster", "TelemetryMean")
    for node_id in Mean.objects.order_by("node_id").values_list("node_id", flat=True).distinct():
        days = defaultdict(lambda: defaultdict(dict))
        for at, means in Mean.objects.filter(node_id=node_id).values_list("start_at", "means").iterator():
            slot = int(at.timestamp() % DAY_S // MEAN_S)
            for name, value in means.items():
                days[at.timestamp() // DAY_S * DAY_S][name][slot] = value
        rows = []
        for start, named in days.items():
            series = {
                name: [min(by), [by.get(slot) for slot in range(min(by), max(by) + 1)]] for name, by in named.items()
            }
            start_at = datetime.fromtimestamp(start, UTC)
            rows.append(Mean(node_id=node_id, start_at=start_at, means={}, packed=_packed({"series": series})))
        Mean.objects.filter(node_id=node_id).delete()
        Mean.objects.bulk_create(rows)


def unpack(apps, schema_editor):
    Mean = apps.get_model("cluster", "TelemetryMean")
    for row in list(Mean.objects.all()):
        slots = defaultdict(dict)
        for name, (first, values) in json.loads(zlib.decompress(bytes(row.packed)[4:]))["series"].items():
            for slot, value in enumerate(values, first):
                if value is not None:
                    slots[slot][name] = value
        start = row.start_at.timestamp()
        row.delete()
        Mean.objects.bulk_create(
            Mean(node_id=row.node_id, start_at=datetime.fromtimestamp(start + slot * MEAN_S, UTC), means=means)
            for slot, means in slots.items()
        )


class Migration(migrations.Migration):
    dependencies = [("cluster", "0006_telemetry_frames")]

    operations = [migrations.RunPython(pack, unpack)]
