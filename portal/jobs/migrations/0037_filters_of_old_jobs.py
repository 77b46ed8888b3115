"""Let the jobs that are there be found by submission, category and label."""

from django.db import migrations
from django.db.models import OuterRef, Subquery

AT_ONCE = 5000


def fill(apps, schema_editor):
    Job, JobText, JobLabel = (apps.get_model("jobs", name) for name in ("Job", "JobText", "JobLabel"))
    own = Job.objects.filter(pk=OuterRef("job_id"))
    JobText.objects.update(
        submitted_at=Subquery(own.values("submitted_at")[:1]), category=Subquery(own.values("category")[:1])
    )
    rows = []
    for pk, labels in Job.objects.filter(array=None).values_list("pk", "labels").iterator(AT_ONCE):
        rows += [JobLabel(job_id=pk, name=name, pair=f"{name}={value}") for name, value in labels.items()]
        if len(rows) >= AT_ONCE:
            JobLabel.objects.bulk_create(rows)
            rows = []
    JobLabel.objects.bulk_create(rows)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0036_lists_by_filters")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
