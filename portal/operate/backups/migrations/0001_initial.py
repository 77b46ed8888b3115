from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Backup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("made", "made"), ("restored", "restored from")], default="made", max_length=8
                    ),
                ),
                ("at", models.DateTimeField(db_index=True, help_text="Of its data.")),
                ("path", models.CharField(max_length=1024)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("took_s", models.FloatField()),
                (
                    "proof",
                    models.CharField(
                        choices=[("restored", "restored into a scratch database"), ("read", "read back and counted")],
                        max_length=8,
                    ),
                ),
            ],
            options={"ordering": ["-at", "-id"]},
        )
    ]
