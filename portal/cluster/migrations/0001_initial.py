import django.core.validators
from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="GpuType",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True)),
                ("memory_mib", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "relative_speed",
                    models.FloatField(
                        default=1.0,
                        help_text="How fast it trains against the other types, for jobs that report no speed: 2 is twice as fast as 1.",
                        validators=[django.core.validators.MinValueValidator(0.001)],
                    ),
                ),
                (
                    "share_weight",
                    models.FloatField(
                        default=1.0,
                        help_text="What one of its GPUs counts in a tenant's share: 2 counts as much as two GPUs of a type with 1.",
                        validators=[django.core.validators.MinValueValidator(0.001)],
                    ),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="NamedEnvironment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        help_text="By which jobs ask for it: letters, digits and ._-",
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\\Z", "Use letters, digits and ._- only."
                            )
                        ],
                    ),
                ),
                (
                    "directory",
                    models.CharField(
                        help_text="Where it lies on nodes, as /opt/torch: an absolute directory with bin/python in it.",
                        max_length=1024,
                    ),
                ),
                (
                    "note",
                    models.CharField(blank=True, help_text="What is in it, for those who choose.", max_length=200),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="JoinToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                (
                    "node_name",
                    models.CharField(
                        blank=True, help_text="Only this node may use it; empty: any name.", max_length=100
                    ),
                ),
                ("uses_left", models.PositiveIntegerField(default=1)),
                ("expires_at", models.DateTimeField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("address", models.CharField(blank=True, max_length=255)),
                ("cores", models.PositiveIntegerField()),
                ("memory_mib", models.PositiveBigIntegerField()),
                (
                    "storage_domain",
                    models.CharField(
                        help_text="Nodes that share it can read each other's checkpoints.", max_length=100
                    ),
                ),
                ("boot_id", models.CharField(max_length=64)),
                ("agent_version", models.CharField(max_length=32)),
                ("is_virtual", models.BooleanField(default=False)),
                (
                    "single_account",
                    models.BooleanField(default=True, help_text="Whether all jobs run under the agent's own account."),
                ),
                (
                    "trusts_tenants",
                    models.BooleanField(default=False, help_text="Whether several tenants may share that account."),
                ),
                ("token_digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("token_revoked_at", models.DateTimeField(blank=True, null=True)),
                ("registered_at", models.DateTimeField(auto_now_add=True)),
                ("last_contact_at", models.DateTimeField(blank=True, null=True)),
                ("drained_at", models.DateTimeField(blank=True, null=True)),
                ("drain_reason", models.CharField(blank=True, max_length=200)),
                ("dead_at", models.DateTimeField(blank=True, help_text="Declared dead by an operator.", null=True)),
                ("revision", models.PositiveBigIntegerField(default=1)),
                (
                    "refused_messages",
                    models.PositiveBigIntegerField(default=0, help_text="Outdated messages that were refused."),
                ),
                (
                    "live",
                    models.JSONField(
                        default=dict, help_text="The last telemetry sample, for pages opened between two."
                    ),
                ),
                (
                    "gpu_type",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=models.PROTECT, related_name="nodes", to="cluster.gputype"
                    ),
                ),
                (
                    "greeted_at",
                    models.DateTimeField(
                        blank=True, help_text="The first hello: its agent has kept its token.", null=True
                    ),
                ),
                (
                    "joined_with",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="cluster.jointoken"
                    ),
                ),
                (
                    "disk_free_mib",
                    models.PositiveBigIntegerField(blank=True, help_text="Free where its jobs write.", null=True),
                ),
                (
                    "disk_low",
                    models.BooleanField(default=False, help_text="Below the agent's mark: it gets no new jobs."),
                ),
                ("disk_total_mib", models.PositiveBigIntegerField(blank=True, null=True)),
                (
                    "isolation",
                    models.JSONField(
                        default=dict, help_text="How its jobs are kept out of Berth's own files, as it says."
                    ),
                ),
                (
                    "problems",
                    models.JSONField(
                        default=list, help_text="What its agent tells the operator: [{at, subject, detail}]."
                    ),
                ),
                (
                    "label",
                    models.CharField(
                        blank=True, help_text="A word of your own. Pages can group nodes by it.", max_length=100
                    ),
                ),
                (
                    "rack",
                    models.CharField(
                        blank=True, help_text="Where it stands. Pages can group nodes by it.", max_length=100
                    ),
                ),
                (
                    "unsettled_since",
                    models.DateTimeField(
                        blank=True,
                        help_text="Restored from a backup; it has not said since what runs on it.",
                        null=True,
                    ),
                ),
                (
                    "links",
                    models.JSONField(
                        default=dict, help_text="What it tells of the links of its GPUs and to other nodes."
                    ),
                ),
                (
                    "drained_by_check",
                    models.CharField(blank=True, help_text="Empty: an operator drained it.", max_length=32),
                ),
                (
                    "findings",
                    models.JSONField(
                        default=list,
                        help_text="What its agent's checks found: [{subject, check, level, detail, remedy}].",
                    ),
                ),
                (
                    "heartbeat_s",
                    models.FloatField(
                        default=1.0,
                        help_text="How often its agent reads its GPUs, in seconds.",
                        validators=[
                            django.core.validators.MinValueValidator(0.001),
                            django.core.validators.MaxValueValidator(10.0),
                        ],
                    ),
                ),
                (
                    "outside",
                    models.JSONField(
                        default=list, help_text="Processes on its GPUs that are no job's: [{gpu, pid, name}]."
                    ),
                ),
                (
                    "overruled",
                    models.JSONField(default=list, help_text='Findings that an operator set aside: ["subject check"].'),
                ),
                (
                    "tunes_cores",
                    models.BooleanField(
                        default=True, help_text="Whether the cores of jobs that run on it may be tuned."
                    ),
                ),
                (
                    "memory_share",
                    models.FloatField(
                        blank=True,
                        help_text="Of its memory's bandwidth in use (0 to 1), mean of the last telemetry.",
                        null=True,
                    ),
                ),
                (
                    "memory_traffic",
                    models.JSONField(
                        default=dict,
                        help_text="How it knows its memory's traffic, and how it holds a CPU job back: gb_s, meter, throttle.",
                    ),
                ),
                (
                    "software",
                    models.JSONField(default=dict, help_text="What software it offers to jobs, as its agent says."),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Gpu",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveSmallIntegerField()),
                ("uuid", models.CharField(max_length=64)),
                ("memory_mib", models.PositiveIntegerField()),
                (
                    "mode",
                    models.CharField(
                        choices=[("exclusive", "Exclusive"), ("shared", "Shared")], default="exclusive", max_length=16
                    ),
                ),
                (
                    "missing_since",
                    models.DateTimeField(blank=True, help_text="The agent no longer sees it.", null=True),
                ),
                ("node", models.ForeignKey(on_delete=models.CASCADE, related_name="gpus", to="cluster.node")),
                (
                    "cordon_check",
                    models.CharField(blank=True, help_text="Empty: an operator cordoned it.", max_length=32),
                ),
                ("cordon_reason", models.CharField(blank=True, max_length=300)),
                ("cordon_remedy", models.CharField(blank=True, max_length=300)),
                ("cordoned_at", models.DateTimeField(blank=True, help_text="No new job gets it.", null=True)),
                (
                    "outside_since",
                    models.DateTimeField(blank=True, help_text="A process outside Berth computes on it.", null=True),
                ),
                (
                    "gpu_type",
                    models.ForeignKey(
                        blank=True,
                        help_text="Empty: the type of its node. A node with several types has the one that it has most of.",
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to="cluster.gputype",
                    ),
                ),
                (
                    "mode_by_operator",
                    models.BooleanField(
                        default=False,
                        help_text="An operator said whether jobs may share it; the setting shared_gpus leaves it so.",
                    ),
                ),
            ],
            options={
                "ordering": ["node", "index"],
                "constraints": [models.UniqueConstraint(fields=("node", "index"), name="gpu_index_once_a_node")],
            },
        ),
        migrations.CreateModel(
            name="NodeEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("kind", models.CharField(max_length=32)),
                ("detail", models.CharField(blank=True, max_length=300)),
                ("actor_name", models.CharField(blank=True, max_length=150)),
                ("node", models.ForeignKey(on_delete=models.CASCADE, related_name="events", to="cluster.node")),
            ],
            options={
                "ordering": ["-at", "-id"],
                "indexes": [models.Index(fields=["node", "-at"], name="cluster_nod_node_id_d259c3_idx")],
            },
        ),
        migrations.CreateModel(
            name="TelemetryBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("start_at", models.DateTimeField(db_index=True)),
                ("packed", models.BinaryField(help_text="As sent; empty after an hour, when `tens` stand for it.")),
                (
                    "node",
                    models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="cluster.node"),
                ),
                (
                    "means",
                    models.BinaryField(
                        default=bytes, help_text="Empty in blocks of a version before: made from `packed`."
                    ),
                ),
                ("tens", models.BinaryField(default=bytes, help_text="Empty in blocks of a version before.")),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("node", "start_at"), name="telemetry_block_once")]
            },
        ),
        migrations.CreateModel(
            name="TelemetryFrame",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(help_text="When its first sample was measured.")),
                ("packed", models.BinaryField()),
                (
                    "node",
                    models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="cluster.node"),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("node", "at"), name="telemetry_frame_once")]},
        ),
        migrations.CreateModel(
            name="TelemetryMean",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("start_at", models.DateTimeField(db_index=True)),
                (
                    "node",
                    models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="cluster.node"),
                ),
                ("packed", models.BinaryField(default=bytes, help_text="Means over 5 min, its attempts' included.")),
                (
                    "hours",
                    models.BinaryField(
                        default=bytes,
                        help_text="Means over an hour, without attempts. Empty in days of a version before.",
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("node", "start_at"), name="telemetry_mean_once")]},
        ),
    ]
