"""What lists are filtered by, in narrow rows and in the indexes of starts and ends: submission, category, labels, owner."""

from datetime import UTC, datetime

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0035_job_template"),
        ("tenants", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="JobLabel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                (
                    "pair",
                    models.CharField(
                        help_text="name=value, in one column, so that the database knows how rare it is.",
                        max_length=319,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="jobs.job"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["name", "job"], name="job_label_by_name"),
                    models.Index(fields=["pair", "job"], name="job_label_by_pair"),
                ],
            },
        ),
        migrations.AddField(
            model_name="jobtext",
            name="category",
            field=models.CharField(max_length=8, null=True),
        ),
        migrations.AddField(
            model_name="jobtext",
            name="submitted_at",
            field=models.DateTimeField(default=datetime(1970, 1, 1, tzinfo=UTC)),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="jobtext",
            index=models.Index(fields=["submitted_at", "job"], name="job_text_by_time"),
        ),
        migrations.AddIndex(
            model_name="jobtext",
            index=models.Index(fields=["category", "job"], name="job_text_by_category"),
        ),
        migrations.RemoveIndex(
            model_name="job",
            name="job_top_by_start",
        ),
        migrations.RemoveIndex(
            model_name="job",
            name="job_by_end",
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("array", None), ("started_at__isnull", False)),
                fields=["-started_at", "-id", "tenant", "array", "state", "owner", "reason"],
                name="job_top_by_start",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=["-ended_at", "-id", "array", "tenant", "state", "owner", "reason"],
                name="job_by_end",
            ),
        ),
    ]
