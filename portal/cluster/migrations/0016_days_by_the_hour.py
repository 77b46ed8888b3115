from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0015_blocks_of_ten_seconds"),
    ]

    operations = [
        migrations.AddField(
            model_name="telemetrymean",
            name="hours",
            field=models.BinaryField(
                default=bytes, help_text="Means over an hour, without attempts. Empty in days of a version before."
            ),
        ),
        migrations.AlterField(
            model_name="telemetrymean",
            name="packed",
            field=models.BinaryField(default=bytes, help_text="Means over 5 min, its attempts' included."),
        ),
    ]
