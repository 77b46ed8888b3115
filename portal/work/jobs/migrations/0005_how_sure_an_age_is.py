from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_no_search_gathers_cores")]

    operations = [
        migrations.AddField(
            "job",
            "age_spread",
            models.FloatField(
                null=True,
                help_text="How sure its expected run time was when it first started: its logarithm's standard deviation.",
            ),
        ),
        migrations.AddField(
            "job",
            "age_runs",
            models.PositiveIntegerField(null=True, help_text="The number of ended jobs behind it."),
        ),
    ]
