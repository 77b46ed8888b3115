"""Every job and attempt has a key, and no two attempts the same."""

from django.db import migrations, models

import portal.jobs.keys


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0013_keys_of_old_rows"),
    ]

    operations = [
        migrations.AlterField(
            model_name="attempt",
            name="key",
            field=models.CharField(
                default=portal.jobs.keys.key_new,
                editable=False,
                help_text="What nodes call it. No other ever gets the same key.",
                max_length=32,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="key",
            field=models.CharField(
                default=portal.jobs.keys.key_new,
                editable=False,
                help_text="What nodes call it. No other ever gets the same key.",
                max_length=32,
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("key",), name="attempt_key_once"),
        ),
    ]
