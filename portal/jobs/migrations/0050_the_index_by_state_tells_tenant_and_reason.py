"""The index by state holds what a list by a label counts by, so that it need not go through the widest of the indexes."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0049_indexes_that_count"),
        ("tenants", "0007_time_zone"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="job",
            name="job_by_state",
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["state", "-id", "array", "tenant", "reason"], name="job_by_state"),
        ),
    ]
