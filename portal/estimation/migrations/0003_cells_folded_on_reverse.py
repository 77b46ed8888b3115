from itertools import groupby

from django.db import migrations


def cells_fold(apps, schema_editor):
    """Before a spread run's GPUs were kept there was one cell for all of a number of nodes: their measurements together."""
    cells = apps.get_model("estimation", "ThroughputCell")
    fields = ("signature_id", "node_id", "gpu_type_id", "nodes")
    spread = cells.objects.using(schema_editor.connection.alias).filter(nodes__isnull=False).order_by(*fields, "pk")
    for _, rows in groupby(list(spread), key=lambda row: [getattr(row, field) for field in fields]):
        whole, *others = rows
        for row in others:
            whole.count, whole.mean, whole.squares = _merged(whole, row)
            row.delete()
        whole.gpus = None
        whole.save()


def _merged(one, other):
    """Count, mean and sum of squared deviations of two samples together (Chan)."""
    count = one.count + other.count
    if not count:
        return 0, 0.0, 0.0
    apart = other.mean - one.mean
    mean = one.mean + apart * other.count / count
    return count, mean, one.squares + other.squares + apart**2 * one.count * other.count / count


class Migration(migrations.Migration):
    dependencies = [
        ("estimation", "0002_cells_by_gpus_and_nodes"),
    ]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, cells_fold),
    ]
