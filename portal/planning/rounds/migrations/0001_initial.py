from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ErrandLease",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("holder", models.CharField(blank=True, max_length=100)),
                ("until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="ForecastRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_number", models.PositiveBigIntegerField()),
                ("given_at", models.DateTimeField()),
                ("earliest_at", models.DateTimeField()),
                ("median_at", models.DateTimeField(null=True)),
                ("latest_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(db_index=True)),
                (
                    "drawn",
                    models.JSONField(
                        default=list,
                        help_text="The same as of StartForecast. Empty: an old row, from before ranges were calibrated.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PlanningLease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(blank=True, max_length=100)),
                ("until", models.DateTimeField(null=True)),
                (
                    "number",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="The number of the last planning. A planning is applied only if this is still its own number.",
                    ),
                ),
                ("snapshot_at", models.DateTimeField(help_text="When the last planning read the database.", null=True)),
                (
                    "again",
                    models.BooleanField(
                        default=False,
                        help_text="Whether something happened while a planning ran, so that another must follow.",
                    ),
                ),
                (
                    "thorough_at",
                    models.DateTimeField(
                        help_text="When the last planning with its whole time limit began.", null=True
                    ),
                ),
                (
                    "idle_beside_fitting",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="Idle GPUs that plannings left although a waiting job fitted them, added up over all plannings.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StartForecast",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="start_forecast",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                (
                    "epoch",
                    models.PositiveIntegerField(
                        help_text="How many attempts the job had when the forecast was first given."
                    ),
                ),
                ("first_at", models.DateTimeField()),
                ("first_earliest_at", models.DateTimeField()),
                ("first_median_at", models.DateTimeField(help_text="Null: later than the simulated time.", null=True)),
                ("first_latest_at", models.DateTimeField(null=True)),
                ("at", models.DateTimeField()),
                ("earliest_at", models.DateTimeField()),
                ("median_at", models.DateTimeField(null=True)),
                ("latest_at", models.DateTimeField(null=True)),
                (
                    "drawn",
                    models.JSONField(
                        default=list,
                        help_text="The lowest, middle and highest wait in seconds, as first drawn, before calibration.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="OperatorSetting",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True)),
                ("value", models.JSONField()),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "updated_by",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Round",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "metrics",
                    models.JSONField(
                        default=dict, help_text="Means over its plannings, weighted by time. {} until it has ended."
                    ),
                ),
                (
                    "array_history",
                    models.JSONField(
                        default=dict,
                        help_text="The history that the arrays are divided by, as it was when the round began.",
                    ),
                ),
            ],
            options={"ordering": ["-number"], "indexes": [models.Index(fields=["started_at"], name="round_by_time")]},
        ),
        migrations.CreateModel(
            name="Explanation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("planning_number", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField(db_index=True)),
                (
                    "reason",
                    models.CharField(blank=True, help_text="Why the job waits. Empty: it was placed.", max_length=32),
                ),
                ("side", models.CharField(blank=True, max_length=8)),
                ("detail", models.BinaryField(help_text="Figures and candidates: JSON, compressed by zlib.")),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="explanations", to="jobs.job")),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["job", "-planning_number"], name="explanation_by_job")],
            },
        ),
        migrations.CreateModel(
            name="Planning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("started_at", models.DateTimeField(db_index=True)),
                (
                    "status",
                    models.CharField(
                        choices=[("applied", "Applied"), ("superseded", "Superseded"), ("failed", "Failed")],
                        max_length=16,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("policy", models.CharField(max_length=32)),
                ("parameters", models.JSONField(default=dict)),
                ("queue_length", models.PositiveIntegerField(default=0)),
                ("window_jobs", models.PositiveIntegerField(default=0)),
                ("placed", models.PositiveIntegerField(default=0)),
                (
                    "dropped",
                    models.PositiveIntegerField(
                        default=0, help_text="How many placements did not fit any more when the planning was applied."
                    ),
                ),
                ("load_s", models.FloatField(default=0)),
                ("plan_s", models.FloatField(default=0)),
                ("apply_s", models.FloatField(default=0)),
                ("solver", models.JSONField(default=dict)),
                ("metrics", models.JSONField(default=dict)),
                (
                    "decisions",
                    models.BinaryField(
                        default=bytes,
                        help_text="Its decisions in packed form; `portal.planning.rounds.record.frames` reads them.",
                    ),
                ),
                ("round", models.ForeignKey(on_delete=models.CASCADE, related_name="plannings", to="rounds.round")),
                ("lapsed", models.JSONField(default=list, help_text="The jobs whose promise it took back.")),
                (
                    "promises",
                    models.JSONField(
                        default=list, help_text="What it keeps free for jobs, each with job, shares and cause."
                    ),
                ),
                (
                    "replan",
                    models.BooleanField(
                        default=False,
                        help_text="Whether it could also move running elastic jobs. Else it only filled idle GPUs.",
                    ),
                ),
                (
                    "reservations",
                    models.JSONField(
                        default=list,
                        help_text="The nodes it keeps free for the first jobs, each with job, nodes and until.",
                    ),
                ),
                (
                    "stops",
                    models.JSONField(
                        default=list,
                        help_text="The jobs it stopped, each with job, cause, for_job, from_gpus, to_gpus and ordered.",
                    ),
                ),
                (
                    "profiles",
                    models.JSONField(
                        default=list,
                        help_text="The profiles it ordered, each with job, gpu_type, node, limit_s and begun.",
                    ),
                ),
                (
                    "keyframe",
                    models.PositiveBigIntegerField(
                        help_text="To read its decisions, begin with those of the planning of this number. Null: with its own.",
                        null=True,
                    ),
                ),
            ],
            options={
                "ordering": ["-number"],
                "indexes": [
                    models.Index(fields=["status", "started_at", "number"], name="planning_series"),
                    models.Index(fields=["status", "-number"], name="planning_last"),
                ],
            },
        ),
    ]
