from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_sealed_second_factors")]

    operations = [
        migrations.RemoveField("secondfactor", "failures"),
        migrations.RemoveField("secondfactor", "failed_at"),
        migrations.AddField(
            "secondfactor",
            "wrong",
            models.JSONField(default=list, help_text="Wrong codes of late: the address of each, and its time."),
        ),
    ]
