"""When the clock last went ahead by a day or more, and by how much: deleting for age waits for a day then."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0052_when_leases_were_looked_at")]

    operations = [
        migrations.AddField(
            model_name="clockmark",
            name="leapt_at",
            field=models.DateTimeField(
                null=True, help_text="When the clock last went ahead by a day or more: deleting waits for a day."
            ),
        ),
        migrations.AddField(
            model_name="clockmark",
            name="leapt_s",
            field=models.FloatField(null=True, help_text="By how many seconds it went ahead then."),
        ),
    ]
