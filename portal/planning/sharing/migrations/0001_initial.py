from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ShadowPlanning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("at", models.DateTimeField(db_index=True)),
                ("acting", models.CharField(max_length=16)),
                ("shadow", models.CharField(max_length=16)),
                ("asked", models.PositiveIntegerField(default=0, help_text="How many jobs both were asked about.")),
                ("agreed", models.PositiveIntegerField(default=0)),
                (
                    "left_out",
                    models.PositiveIntegerField(default=0, help_text="Jobs beyond those that are compared or kept."),
                ),
                (
                    "skipped",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Plannings before it that were not compared: the shadow was still deciding.",
                    ),
                ),
                (
                    "use",
                    models.JSONField(
                        default=dict,
                        help_text="By side: GPUs, those taken, jobs, expected use and use alone in per cent.",
                    ),
                ),
                ("spent_ms", models.FloatField(default=0.0, help_text="How long it took, beside the planning.")),
                ("error", models.CharField(blank=True, help_text="Why it gave no answer.", max_length=500)),
            ],
            options={"ordering": ["-number"]},
        ),
        migrations.CreateModel(
            name="Proposal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waits for its training"),
                            ("training", "is being trained"),
                            ("ready", "waits for a decision"),
                            ("accepted", "accepted"),
                            ("rejected", "rejected"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=16,
                    ),
                ),
                ("asked_by_name", models.CharField(blank=True, help_text="Empty: it was due.", max_length=150)),
                ("begun_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(help_text="When its training ended.", null=True)),
                (
                    "content",
                    models.BinaryField(default=bytes, help_text="The policy's file, until somebody has decided."),
                ),
                (
                    "about",
                    models.JSONField(default=dict, help_text="The training record: what it learned from, and how."),
                ),
                ("curve", models.JSONField(default=list, help_text="What an episode cost on average, by update.")),
                (
                    "judged",
                    models.JSONField(
                        default=dict,
                        help_text="Figures on workloads that it was not trained on: its own, the present file's, cbp-pp's.",
                    ),
                ),
                ("error", models.CharField(blank=True, max_length=500)),
                ("decided_by_name", models.CharField(blank=True, max_length=150)),
                ("decided_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "training")), fields=("state",), name="one_proposal_in_training"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "waiting")), fields=("state",), name="one_proposal_waits"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ShadowDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(db_index=True)),
                ("signature", models.CharField(max_length=200)),
                ("compute", models.PositiveSmallIntegerField()),
                ("memory_mib", models.PositiveIntegerField()),
                (
                    "acting",
                    models.JSONField(
                        help_text="Where it starts and by which rule, or how many GPUs are closed by each rule."
                    ),
                ),
                ("shadow", models.JSONField(help_text="The same of the shadow.")),
                ("acting_admits", models.BooleanField()),
                ("shadow_admits", models.BooleanField()),
                (
                    "acting_rule",
                    models.CharField(help_text="By which it starts, or which closes most GPUs.", max_length=16),
                ),
                ("shadow_rule", models.CharField(max_length=16)),
                (
                    "acting_slowdown",
                    models.FloatField(help_text="By the pairs measured until then. Null: not measured.", null=True),
                ),
                ("shadow_slowdown", models.FloatField(null=True)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="jobs.job")),
                (
                    "planning",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="decisions", to="sharing.shadowplanning"),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["job", "-id"], name="shadow_decision_by_job")],
            },
        ),
    ]
