"""What jobs are searched by, in rows of their own; on Postgres with a trigram index where that may be made."""

import django.db.models.deletion
from django.db import migrations, models

AT_ONCE = 5000


def fill(apps, schema_editor):
    Job, JobText = (apps.get_model("jobs", name) for name in ("Job", "JobText"))
    rows = []
    for pk, name, labels in Job.objects.filter(array=None).values_list("pk", "name", "labels").iterator(AT_ONCE):
        text = "\n".join([name, *(f"{key}={value}" for key, value in labels.items())]).lower()
        rows.append(JobText(job_id=pk, text=text))
        if len(rows) == AT_ONCE:
            JobText.objects.bulk_create(rows)
            rows.clear()
    JobText.objects.bulk_create(rows)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_allocations_by_release")]

    operations = [
        migrations.CreateModel(
            name="JobText",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="text",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                (
                    "text",
                    models.TextField(
                        help_text="What a search looks through, in lower case: the name, then one line name=value for each label."
                    ),
                ),
            ],
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
