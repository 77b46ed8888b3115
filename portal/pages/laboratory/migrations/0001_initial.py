from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="LabTrace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                (
                    "shared_with",
                    models.CharField(
                        choices=[("owner", "nobody"), ("tenant", "the tenant"), ("operators", "operators")],
                        default="owner",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[("upload", "uploaded"), ("history", "the cluster's history")], max_length=16
                    ),
                ),
                (
                    "all_tenants",
                    models.BooleanField(
                        default=False, help_text="An operator took it, so it holds the jobs of every tenant."
                    ),
                ),
                ("format", models.CharField(max_length=32)),
                ("content", models.BinaryField(help_text="The trace's text, compressed by zlib.")),
                (
                    "size_bytes",
                    models.PositiveBigIntegerField(help_text="The size of the text before it was compressed."),
                ),
                ("jobs", models.PositiveIntegerField()),
                ("span_s", models.FloatField(help_text="Seconds from the first arrival to the last.")),
                ("owner", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            ],
            options={"ordering": ["-pk"]},
        ),
        migrations.CreateModel(
            name="Simulation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                (
                    "shared_with",
                    models.CharField(
                        choices=[("owner", "nobody"), ("tenant", "the tenant"), ("operators", "operators")],
                        default="owner",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "generator",
                    models.CharField(
                        blank=True, help_text="The generator of its jobs, where it has no trace.", max_length=32
                    ),
                ),
                ("generated_jobs", models.PositiveIntegerField(null=True)),
                (
                    "cluster",
                    models.TextField(
                        blank=True,
                        help_text="The description of the cluster in YAML. Empty: the generator's own cluster.",
                    ),
                ),
                ("cluster_name", models.CharField(max_length=100)),
                ("policies", models.JSONField(help_text="The names of the policies, in the order of the report.")),
                ("knobs", models.JSONField(default=dict, help_text="The knobs that differ from their defaults.")),
                ("seed", models.PositiveIntegerField(default=1)),
                (
                    "until_h",
                    models.FloatField(
                        help_text="Simulated hours after which it is cut off. Null: it runs to the end.", null=True
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("QUEUED", "Queued"),
                            ("RUNNING", "Running"),
                            ("COMPLETED", "Completed"),
                            ("FAILED", "Failed"),
                            ("CANCELLED", "Cancelled"),
                        ],
                        default="QUEUED",
                        max_length=16,
                    ),
                ),
                (
                    "progress",
                    models.JSONField(default=dict, help_text="For each policy, the part of its jobs that have ended."),
                ),
                ("holder", models.CharField(blank=True, help_text="The process that works on it now.", max_length=100)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("figures", models.JSONField(default=dict, help_text="For each policy, its figures.")),
                (
                    "curves",
                    models.BinaryField(
                        default=bytes, help_text="For each policy, what the plots show: JSON, compressed by zlib."
                    ),
                ),
                ("owner", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
                (
                    "trace",
                    models.ForeignKey(
                        null=True, on_delete=models.PROTECT, related_name="simulations", to="simulations.labtrace"
                    ),
                ),
                (
                    "request_digest",
                    models.CharField(blank=True, help_text="The SHA-256 of the body of that request.", max_length=64),
                ),
                (
                    "request_key",
                    models.CharField(
                        blank=True, help_text="The Idempotency-Key of the request that made it.", max_length=255
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["QUEUED", "RUNNING"])), fields=["id"], name="simulation_open"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("generated_jobs__isnull", False),
                                ("trace", None),
                                models.Q(("generator", ""), _negated=True),
                            ),
                            models.Q(("generated_jobs", None), ("generator", ""), ("trace__isnull", False)),
                            _connector="OR",
                        ),
                        name="simulation_of_a_trace_or_a_generator",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("request_key", ""), _negated=True),
                        fields=("owner", "request_key"),
                        name="simulation_request_once",
                    ),
                ],
            },
        ),
    ]
