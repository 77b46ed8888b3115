from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_initial")]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="missed_at",
            field=models.DateTimeField(
                help_text="When its node first sent a report in which it was missing.", null=True
            ),
        ),
    ]
