"""Give the jobs that are there the rows of what they begin with."""

from django.db import migrations

AT_ONCE = 500


def fill(apps, schema_editor):
    Job, JobPayload, JobInput = (apps.get_model("jobs", name) for name in ("Job", "JobPayload", "JobInput"))
    payloads = JobPayload.objects.filter(description__has_key="inputs").values_list("job_id", "description__inputs")
    for job_id, inputs in payloads.iterator(AT_ONCE):
        given = [each for each in inputs or () if each.get("path")]
        known = set(Job.objects.filter(pk__in={each["job"] for each in given}).values_list("pk", flat=True))
        JobInput.objects.bulk_create(
            JobInput(
                job_id=job_id,
                source_id=each["job"] if each["job"] in known else None,
                path=each["path"],
                target=each.get("as") or each["path"].rpartition("/")[2],
            )
            for each in given
        )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0040_inputs_of_jobs")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
