from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("simulations", "0001_initial")]

    operations = [
        migrations.AddField(
            "simulation",
            "turns",
            models.JSONField(
                default=dict,
                help_text="The price of turns by shares, from one more run without them. Empty: not known.",
            ),
        ),
    ]
