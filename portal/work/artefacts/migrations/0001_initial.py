from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="TenantArtefacts",
            fields=[
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.tenant",
                    ),
                ),
                ("counted", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="JobArtefacts",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="artefacts_row",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("files", models.PositiveIntegerField(default=0)),
                ("counted", models.PositiveBigIntegerField(default=0)),
                (
                    "notes",
                    models.JSONField(
                        default=dict, help_text="By rank: files that a node does not send, as [path, why]."
                    ),
                ),
                (
                    "removed",
                    models.JSONField(
                        default=dict,
                        help_text="Paths that a user removed, and when (ns since 1970): older files there are not taken again.",
                    ),
                ),
                ("looked_at", models.DateTimeField(help_text="When a node last told of its files.")),
                ("tenant", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="tenants.tenant")),
                (
                    "left_out",
                    models.JSONField(
                        default=dict,
                        help_text="How many more than `notes` has: by rank a number, of the portal's own a sign of each.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Artefact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(help_text="Relative to the folder, parts divided by /.", max_length=1024)),
                ("rank", models.PositiveSmallIntegerField(help_text="The part of the attempt that wrote it last.")),
                ("epoch", models.PositiveIntegerField(help_text="The attempt that wrote it last.")),
                (
                    "size",
                    models.PositiveBigIntegerField(help_text="Bytes that are kept. Null: nothing yet.", null=True),
                ),
                (
                    "modified_ns",
                    models.BigIntegerField(default=0, help_text="By its node's clock, nanoseconds since 1970."),
                ),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("blob", models.CharField(blank=True, max_length=32)),
                ("kept_at", models.DateTimeField(null=True)),
                (
                    "told_size",
                    models.PositiveBigIntegerField(help_text="Of the content on its way. Null: none is.", null=True),
                ),
                ("told_ns", models.BigIntegerField(default=0)),
                ("incoming", models.CharField(blank=True, max_length=32)),
                (
                    "reason",
                    models.CharField(blank=True, help_text="Why the newest content is not kept.", max_length=300),
                ),
                (
                    "counted",
                    models.PositiveBigIntegerField(default=0, help_text="Bytes that it takes of the tenant's quota."),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="artefacts", to="jobs.job"
                    ),
                ),
            ],
            options={
                "ordering": ["path"],
                "constraints": [models.UniqueConstraint(fields=("job", "path"), name="artefact_path_once")],
            },
        ),
    ]
