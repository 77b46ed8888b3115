from django.db import migrations

from portal.jobs.migrations._trigrams import index_drop, index_make


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_job_text")]

    operations = [migrations.RunPython(index_make, index_drop)]
