"""The signal that ended a command, beside its exit code: of a part, an attempt and a job."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0053_clock_leaps")]

    operations = [
        migrations.AddField(
            model_name=model,
            name="signal",
            field=models.PositiveSmallIntegerField(
                null=True, help_text="The signal that ended its command, which then has no exit code."
            ),
        )
        for model in ("allocation", "attempt", "job")
    ]
