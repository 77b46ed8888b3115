"""Searches of an earlier version that still gathered cores, and had measured nothing, begin anew."""

from django.db import migrations


def forget(apps, _):
    apps.get_model("jobs", "CoreSearch").objects.filter(done_at=None, state__way="gather").delete()


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_ports_that_parts_listen_on")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
