"""Decisions are packed in columns from here on; what older plannings packed as one JSON list is let go."""

from django.db import migrations


def let_go(apps, schema_editor):
    apps.get_model("rounds", "Planning").objects.using(schema_editor.connection.alias).update(decisions=b"")


class Migration(migrations.Migration):
    dependencies = [("rounds", "0004_explanations")]
    operations = [migrations.RunPython(let_go, migrations.RunPython.noop)]
