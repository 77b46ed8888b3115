from django.db import migrations


def profiles_delete(apps, schema_editor):
    """Before attempts had a kind there were runs only, one epoch each."""
    apps.get_model("jobs", "Attempt").objects.filter(kind="profile").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0009_attempt_profiles"),
    ]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, profiles_delete),
    ]
