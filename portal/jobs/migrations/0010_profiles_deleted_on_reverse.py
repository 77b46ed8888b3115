from django.db import migrations

PROFILES = "SELECT id FROM jobs_attempt WHERE kind = 'profile'"
PARTS = f"SELECT id FROM jobs_allocation WHERE attempt_id IN ({PROFILES})"
ROWS = (
    ("jobs_gpuallocation", "allocation_id", PARTS),
    ("estimation_partoffset", "allocation_id", PARTS),
    ("jobs_allocation", "attempt_id", PROFILES),
    ("jobs_logchunk", "attempt_id", PROFILES),
    ("estimation_attemptspeed", "attempt_id", PROFILES),
    ("jobs_attempt", "id", PROFILES),
)
"""What a profile left, what refers to others first. In SQL: the state's models do not know each other across apps here."""


def profiles_delete(apps, schema_editor):
    """Before attempts had a kind there were runs only, one epoch each."""
    tables = set(schema_editor.connection.introspection.table_names())
    for table, column, which in ROWS:
        if table in tables:
            schema_editor.execute(f"DELETE FROM {table} WHERE {column} IN ({which})")


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0009_attempt_profiles"),
    ]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, profiles_delete),
    ]
