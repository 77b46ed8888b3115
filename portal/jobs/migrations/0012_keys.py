"""Jobs and attempts get keys; they are filled by the next migration, and asked for by the one after."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_narrower_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="key",
            field=models.CharField(
                editable=False,
                help_text="What nodes call it. No other ever gets the same key.",
                max_length=32,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="key",
            field=models.CharField(
                editable=False,
                help_text="What nodes call it. No other ever gets the same key.",
                max_length=32,
                null=True,
            ),
        ),
    ]
