from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="JobTemplate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                ("title", models.CharField(max_length=100)),
                ("about", models.CharField(blank=True, max_length=1000)),
                ("version", models.PositiveIntegerField(default=0, help_text="The number of the last version.")),
                ("changed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="job_templates", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["name", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="template_once_a_tenant"),
                    models.UniqueConstraint(
                        condition=models.Q(("tenant", None)), fields=("name",), name="template_once_of_operators"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedValues",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80)),
                ("values", models.JSONField()),
                ("saved_at", models.DateTimeField()),
                (
                    "template",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="saved_values", to="templating.jobtemplate"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="saved_values",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "template", "name"), name="saved_values_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("template", None)),
                        fields=("user", "name"),
                        name="saved_values_of_form_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TemplateVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("document", models.JSONField(help_text="Name, title, text, parameters and the job's fields.")),
                ("size_bytes", models.PositiveIntegerField()),
                ("made_by", models.CharField(help_text="Who made it, as the person was called then.", max_length=150)),
                ("made_at", models.DateTimeField()),
                (
                    "template",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="versions", to="templating.jobtemplate"
                    ),
                ),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [models.UniqueConstraint(fields=("template", "number"), name="template_version_once")],
            },
        ),
    ]
