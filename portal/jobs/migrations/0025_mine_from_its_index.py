"""One's own jobs are of tenants whose member the reader is: the index tells their tenant too."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_list_indexes"),
        ("tenants", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="job",
            name="job_top_by_owner",
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("array", None)),
                fields=["owner", "state", "-id", "reason", "tenant", "array"],
                name="job_top_by_owner",
            ),
        ),
    ]
