from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                (
                    "sealed",
                    models.TextField(
                        help_text="Its value, sealed with the signing key (`portal.foundation.secret_key`)."
                    ),
                ),
                (
                    "changed_by",
                    models.CharField(help_text="Who set it last, as the person was called then.", max_length=150),
                ),
                ("changed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="secrets", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["tenant__name", "name"],
                "constraints": [models.UniqueConstraint(fields=("tenant", "name"), name="secret_once_a_tenant")],
            },
        )
    ]
