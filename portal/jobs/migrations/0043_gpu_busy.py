"""The part of what an attempt held of GPUs that computed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0042_code")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="gpu_busy",
            field=models.FloatField(
                null=True,
                help_text="The part of what it held of GPUs, in time, that computed: 0 to 1. Null: not measured, or not yet.",
            ),
        )
    ]
