"""An index for the last applied planning, which SQLite sorted all plannings for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rounds", "0012_forecasts_as_drawn"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="planning",
            index=models.Index(fields=["status", "-number"], name="planning_last"),
        ),
    ]
