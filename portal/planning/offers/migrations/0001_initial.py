from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="JobOffers",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="offers",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                (
                    "planning_number",
                    models.PositiveBigIntegerField(default=0, help_text="The last planning before it was worked out."),
                ),
                ("asked", models.JSONField(default=dict, help_text="What the job asked for then.")),
                ("at", models.DateTimeField(help_text="When it was worked out. Null: not yet.", null=True)),
                ("took_s", models.FloatField(default=0)),
                ("answer", models.JSONField(default=dict)),
                (
                    "until",
                    models.DateTimeField(help_text="Somebody works it out anew, until then at the latest.", null=True),
                ),
            ],
        )
    ]
