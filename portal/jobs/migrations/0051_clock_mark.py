"""When each machine of the portal's was booted by its own clock, so that a clock that was set is noticed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0050_the_index_by_state_tells_tenant_and_reason")]

    operations = [
        migrations.CreateModel(
            name="ClockMark",
            fields=[
                (
                    "boot",
                    models.CharField(
                        help_text="The kernel's name of this boot, and the machine's.",
                        max_length=128,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("booted_at", models.DateTimeField()),
            ],
        ),
    ]
