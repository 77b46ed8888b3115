"""When leases were last looked at, and since when they are again: after a time without that, nodes have time to report."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0051_clock_mark")]

    operations = [
        migrations.AddField(
            model_name="clockmark",
            name="looked_at",
            field=models.DateTimeField(null=True, help_text="When it last looked for leases that are over."),
        ),
        migrations.AddField(
            model_name="clockmark",
            name="returned_at",
            field=models.DateTimeField(
                null=True,
                help_text="When it last did so after no machine had for a while: nodes could not report meanwhile.",
            ),
        ),
    ]
