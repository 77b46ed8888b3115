"""Lists count from an index that holds no more than that, find times of submission in one, and a tenant's use reads no row."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0048_waited_in_tenant_index"),
        ("tenants", "0007_time_zone"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("array", None)),
                fields=["tenant", "state", "reason", "array"],
                name="job_top_counts",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("array", None)),
                fields=["-submitted_at", "-id", "tenant", "array", "state", "owner", "reason"],
                name="job_top_by_submission",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["tenant", "-id", "array", "owner", "category"], name="job_by_tenant"),
        ),
    ]
