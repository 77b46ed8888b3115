"""A job may name a time before which it does not start."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="start_after",
            field=models.DateTimeField(help_text="It does not start before this time. Null: at once.", null=True),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at", None), ("start_after__isnull", False)),
                fields=["start_after"],
                name="job_unfinished_start_after",
            ),
        ),
    ]
