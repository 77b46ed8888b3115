from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="OutboxMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "topic",
                    models.CharField(
                        choices=[
                            ("plan", "a planning is due"),
                            ("wake", "a node's wanted list changed"),
                            ("event", "pages should refetch"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "stream",
                    models.CharField(
                        blank=True, help_text="node:7 for a wake; cluster or job:42 for an event", max_length=64
                    ),
                ),
                ("payload", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ["id"]},
        )
    ]
