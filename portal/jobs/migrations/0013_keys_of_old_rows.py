"""Attempts, and jobs that have had one, keep the name that nodes know them by: their id in decimal digits.

So the journals' records of what runs during the upgrade, its logs and its checkpoints are found as before. A job that
has not started yet is on no node, and gets a key that never comes again.
"""

from django.db import migrations
from django.db.models import CharField, Func
from django.db.models.functions import Cast


class RandomKey(Func):
    """32 hexadecimal digits, drawn by the database for each row."""

    output_field = CharField()
    template = "lower(hex(randomblob(16)))"

    def as_postgresql(self, compiler, connection, **context):
        template = "replace(gen_random_uuid()::text, '-', '')"
        return self.as_sql(compiler, connection, template=template, **context)


def keys_fill(apps, schema_editor):
    using = schema_editor.connection.alias
    attempts, jobs = (apps.get_model("jobs", name).objects.using(using) for name in ("Attempt", "Job"))
    attempts.filter(key=None).update(key=Cast("pk", CharField(max_length=32)))
    jobs.filter(key=None, epoch__gt=0).update(key=Cast("pk", CharField(max_length=32)))
    jobs.filter(key=None).update(key=RandomKey())


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0012_keys"),
    ]

    operations = [
        migrations.RunPython(keys_fill, migrations.RunPython.noop),
    ]
