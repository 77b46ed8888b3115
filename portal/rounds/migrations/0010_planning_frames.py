"""Decisions are stored as the difference to the planning before; what is stored is read as it is. Back: whole again."""

import json
import zlib

import numpy as np
from django.db import migrations, models

from portal.rounds.record.frames import LONGEST, VERSION, frame_head, frame_read

COLUMNS = {
    "job": np.int64,
    "rank": np.int32,
    "turn": np.int32,
    "latency_ratio": np.float32,
    "age_s": np.float32,
    "binding": np.uint32,
    "result": np.uint8,
    "reason": np.uint8,
    "array": np.uint8,
    "side": np.uint8,
    "eligible": np.uint8,
    "source": np.uint8,
    "detail": np.uint32,
}
DELTAS = ("job", "rank", "turn")


def whole(apps, schema_editor):
    """Write each planning's decisions as version 2 had them; one whose frames are gone keeps none."""
    rows = apps.get_model("rounds", "Planning").objects.using(schema_editor.connection.alias)
    frames = {}
    for pk, packed in rows.exclude(decisions=b"").order_by("number").values_list("pk", "decisions").iterator(50):
        head, _ = frame_head(bytes(packed))
        if head["version"] < VERSION:
            continue
        before = frames.get(head.get("before"))
        if head["depth"] and (before is None or before.mark != head["mark"]):
            rows.filter(pk=pk).update(decisions=b"")
            continue
        frame = frames[head["number"]] = frame_read(bytes(packed), before)
        for old in list(frames)[: -2 * LONGEST]:
            del frames[old]
        rows.filter(pk=pk).update(decisions=packed_whole(frame))


def packed_whole(frame):
    names = ("count", "arrays", "sources", "windows", "shares", "reservations", "blocking", "placements")
    parts = [json.dumps({"version": 2, **{name: frame.head[name] for name in names}}).encode(), b"\n"]
    for name, dtype in COLUMNS.items():
        values = (frame.jobs if name == "job" else frame.columns[name])[frame.rows].astype(dtype)
        parts.append((np.diff(values, prepend=dtype(0)) if name in DELTAS else values).tobytes())
    return zlib.compress(b"".join(parts), 3)


class Migration(migrations.Migration):
    dependencies = [("rounds", "0009_lease_thorough")]
    operations = [
        migrations.AddField(
            model_name="planning",
            name="keyframe",
            field=models.PositiveBigIntegerField(
                null=True,
                help_text="To read its decisions, begin with those of the planning of this number. Null: with its own.",
            ),
        ),
        migrations.AlterField(
            model_name="planning",
            name="decisions",
            field=models.BinaryField(
                default=bytes, help_text="Its decisions in packed form; `portal.rounds.record.frames` reads them."
            ),
        ),
        migrations.RunPython(migrations.RunPython.noop, whole),
    ]
