from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("cluster", "0001_initial"), ("jobs", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="AttemptDistilled",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="distilled",
                        serialize=False,
                        to="jobs.attempt",
                    ),
                )
            ],
        ),
        migrations.CreateModel(
            name="AttemptSpeed",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="speed",
                        serialize=False,
                        to="jobs.attempt",
                    ),
                ),
                ("iterations", models.PositiveBigIntegerField(default=0)),
                ("samples", models.FloatField(default=0.0, help_text="Samples of all its GPUs together.")),
                ("seconds", models.FloatField(default=0.0)),
                ("last_samples_per_s", models.FloatField(null=True)),
                ("records", models.PositiveBigIntegerField(default=0)),
                (
                    "dropped",
                    models.PositiveBigIntegerField(
                        default=0, help_text="How many things that the job wrote were no valid records."
                    ),
                ),
                ("predicted_samples_per_s", models.FloatField(null=True)),
                ("predicted_source", models.CharField(blank=True, max_length=16)),
                ("at", models.DateTimeField()),
                (
                    "samples_done",
                    models.FloatField(
                        help_text="How many samples of the whole job are done, as the attempt last reported.", null=True
                    ),
                ),
                (
                    "samples_saved",
                    models.FloatField(
                        help_text="How many of them its newest checkpoint holds. Null: it reported no checkpoint.",
                        null=True,
                    ),
                ),
                (
                    "queries_late",
                    models.PositiveBigIntegerField(
                        default=0, help_text="How many queries were answered later than its target (SLO)."
                    ),
                ),
                (
                    "query_counts",
                    models.JSONField(
                        default=list, help_text="How many of a server's queries took how long. Empty: it reported none."
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobProgress",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="progress",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("epoch", models.PositiveIntegerField(help_text="The number of the attempt that reported last.")),
                ("samples_done", models.FloatField()),
                ("samples_total", models.FloatField(null=True)),
                ("fraction", models.FloatField(default=0.0)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="NodeSpeed",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="speed",
                        serialize=False,
                        to="cluster.node",
                    ),
                ),
                ("factor", models.FloatField()),
                ("signatures", models.PositiveIntegerField(help_text="How many signatures this comes from.")),
                ("measured_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="PartOffset",
            fields=[
                (
                    "allocation",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="records_taken",
                        serialize=False,
                        to="jobs.allocation",
                    ),
                ),
                ("offset", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Link",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("within_node", models.FloatField(null=True)),
                ("between_nodes", models.FloatField(null=True)),
                ("within_measured_at", models.DateTimeField(null=True)),
                ("between_measured_at", models.DateTimeField(null=True)),
                ("within_method", models.CharField(blank=True, max_length=300)),
                ("between_method", models.CharField(blank=True, max_length=300)),
                ("gpu_type", models.OneToOneField(on_delete=models.CASCADE, related_name="link", to="cluster.gputype")),
                ("between_assumed", models.FloatField(null=True)),
                ("between_assumed_from", models.CharField(blank=True, max_length=100)),
                ("between_refined", models.FloatField(null=True)),
                ("between_told", models.CharField(blank=True, max_length=100)),
                (
                    "within_assumed",
                    models.FloatField(
                        help_text="The figure assumed from what the nodes say of their links now.", null=True
                    ),
                ),
                ("within_assumed_from", models.CharField(blank=True, max_length=100)),
                (
                    "within_refined",
                    models.FloatField(
                        help_text="The figure that the records of running jobs give. Null: too few jobs recorded it.",
                        null=True,
                    ),
                ),
                (
                    "within_told",
                    models.CharField(
                        blank=True, help_text="What the nodes said of their links when it was measured.", max_length=100
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LinkProbe",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="link_probe",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("between", models.BooleanField()),
                (
                    "told",
                    models.CharField(
                        blank=True, help_text="What the nodes said of their links when it began.", max_length=100
                    ),
                ),
                ("begun_at", models.DateTimeField()),
                ("taken_at", models.DateTimeField(help_text="When its result was read.", null=True)),
                ("problem", models.CharField(blank=True, help_text="Why it gave no result.", max_length=300)),
                ("gpu_type", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="cluster.gputype")),
            ],
        ),
        migrations.CreateModel(
            name="Signature",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("used_at", models.DateTimeField(help_text="When the last record came.")),
                (
                    "job",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="signatures", to="jobs.job"),
                ),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            ],
            options={"indexes": [models.Index(fields=["tenant", "job"], name="estimation__tenant__71fe03_idx")]},
        ),
        migrations.CreateModel(
            name="PairSpeed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "beside",
                    models.CharField(
                        help_text="The name of the other job's signature. It is a name so that nobody locks the other's row.",
                        max_length=200,
                    ),
                ),
                ("count", models.PositiveBigIntegerField(default=0, help_text="How many records were compared.")),
                (
                    "mean",
                    models.FloatField(
                        default=0.0,
                        help_text="Its speed beside the other, as a part of its speed alone. 1: as fast as alone.",
                    ),
                ),
                (
                    "squares",
                    models.FloatField(
                        default=0.0, help_text="The sum of squared differences from the mean (Welford's method)."
                    ),
                ),
                ("at", models.DateTimeField()),
                ("gpu_type", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="cluster.gputype")),
                (
                    "signature",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="pairs", to="estimation.signature"),
                ),
            ],
            options={
                "verbose_name": "pair of neighbours",
                "verbose_name_plural": "pairs of neighbours",
                "constraints": [
                    models.UniqueConstraint(fields=("signature", "beside", "gpu_type"), name="pair_speed_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="JobProfile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "batch",
                    models.PositiveIntegerField(
                        default=1, help_text="The batch size on each GPU at which the times below were measured."
                    ),
                ),
                ("parameters", models.PositiveBigIntegerField(default=0)),
                (
                    "modules",
                    models.PositiveBigIntegerField(
                        default=0, help_text="How many iterations the times below come from."
                    ),
                ),
                ("forward_s", models.FloatField(default=0.0)),
                ("backward_s", models.FloatField(default=0.0)),
                ("update_s", models.FloatField(default=0.0)),
                (
                    "pattern",
                    models.PositiveSmallIntegerField(
                        choices=[(1, "overlapped"), (2, "sequential"), (3, "inference")],
                        help_text="How the job loads its data, as its iterations show it. Nobody was asked.",
                        null=True,
                    ),
                ),
                ("data_count", models.PositiveBigIntegerField(default=0)),
                (
                    "data_parts",
                    models.JSONField(
                        default=list,
                        help_text="Sums that describe the times of loading data: first those from the cache, then the others.",
                    ),
                ),
                (
                    "recent_data",
                    models.JSONField(
                        default=list,
                        help_text="The latest pairs of seconds: for loading data, and for waiting for the other processes.",
                    ),
                ),
                (
                    "recent_iterations",
                    models.JSONField(
                        default=list, help_text="The latest iterations on one GPU. The pattern is recognised from them."
                    ),
                ),
                ("gpu_type", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="cluster.gputype")),
                (
                    "signature",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="profiles", to="estimation.signature"),
                ),
                (
                    "exchange_s",
                    models.FloatField(default=0.0, help_text="Seconds of communication in those runs, in all."),
                ),
                (
                    "exposed_s",
                    models.FloatField(
                        default=0.0,
                        help_text="Seconds of communication that made steps longer, in runs that recorded communication.",
                    ),
                ),
                (
                    "rest_sigma_s",
                    models.FloatField(
                        help_text="By how many seconds the computing of a step on one GPU varies. Null: not known yet.",
                        null=True,
                    ),
                ),
                (
                    "wait_gpus",
                    models.FloatField(
                        default=0.0,
                        help_text="How many processes, on average, the runs had in which one waited for the others.",
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("signature", "gpu_type"), name="profile_once")]},
        ),
        migrations.CreateModel(
            name="SignatureUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("count", models.PositiveBigIntegerField(default=0, help_text="How many attempts it comes from.")),
                ("seconds", models.FloatField(default=0.0, help_text="How long the last attempt ran.")),
                ("at", models.DateTimeField(help_text="When the last attempt ended.")),
                (
                    "series",
                    models.JSONField(
                        default=dict, help_text="What the last attempt used over time: {measure: [value or null]}."
                    ),
                ),
                (
                    "highs",
                    models.JSONField(
                        default=list,
                        help_text="The 80th percentile of each measure, for the latest attempts: [{measure: value}].",
                    ),
                ),
                (
                    "most",
                    models.JSONField(
                        default=dict, help_text="The highest value ever of each measure: {measure: value}."
                    ),
                ),
                (
                    "gpu_type",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="cluster.gputype"),
                ),
                (
                    "signature",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="uses", to="estimation.signature"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("gpu_type__isnull", False)),
                        fields=("signature", "gpu_type"),
                        name="use_once_a_type",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("gpu_type", None)), fields=("signature",), name="use_once_without_gpus"
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="ThroughputCell",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "gpus",
                    models.PositiveIntegerField(
                        help_text="The number of GPUs on all nodes together. Null: an old row, which knows only the number of nodes.",
                        null=True,
                    ),
                ),
                (
                    "nodes",
                    models.PositiveIntegerField(
                        help_text="The number of nodes, where there were several. Null: it ran on one node.", null=True
                    ),
                ),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("mean", models.FloatField(default=0.0)),
                (
                    "squares",
                    models.FloatField(
                        default=0.0, help_text="The sum of squared differences from the mean (Welford's method)."
                    ),
                ),
                (
                    "gpu_type",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="cluster.gputype"),
                ),
                ("node", models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="cluster.node")),
                (
                    "signature",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="cells", to="estimation.signature"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("gpu_type__isnull", False), ("node", None)),
                            models.Q(("gpu_type", None), ("node__isnull", False)),
                            _connector="OR",
                        ),
                        name="cell_of_a_node_or_a_type",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("nodes__gt", 1), ("nodes__isnull", False)),
                            models.Q(("gpus__isnull", False), ("nodes", None)),
                            _connector="OR",
                        ),
                        name="cell_aggregated_or_distributed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("gpus", None), ("gpus__gt", 0), _connector="OR"), name="cell_of_gpus"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("gpus__isnull", False), ("node__isnull", False), ("nodes__isnull", True)),
                        fields=("signature", "node", "gpus"),
                        name="cell_once_node_aggregated",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("gpus__isnull", False), ("node__isnull", False), ("nodes__isnull", False)),
                        fields=("signature", "node", "gpus", "nodes"),
                        name="cell_once_node_distributed",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("gpus__isnull", True), ("node__isnull", False), ("nodes__isnull", False)),
                        fields=("signature", "node", "nodes"),
                        name="cell_once_node_by_nodes",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("gpu_type__isnull", False), ("gpus__isnull", False), ("nodes__isnull", True)
                        ),
                        fields=("signature", "gpu_type", "gpus"),
                        name="cell_once_gpu_type_aggregated",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("gpu_type__isnull", False), ("gpus__isnull", False), ("nodes__isnull", False)
                        ),
                        fields=("signature", "gpu_type", "gpus", "nodes"),
                        name="cell_once_gpu_type_distributed",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("gpu_type__isnull", False), ("gpus__isnull", True), ("nodes__isnull", False)
                        ),
                        fields=("signature", "gpu_type", "nodes"),
                        name="cell_once_gpu_type_by_nodes",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="LinkVote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "between",
                    models.BooleanField(
                        help_text="Whether it is the link between nodes. Else it is the one within a node."
                    ),
                ),
                ("recent", models.JSONField(default=list)),
                ("at", models.DateTimeField()),
                ("gpu_type", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="cluster.gputype")),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("gpu_type", "tenant", "between"), name="link_vote_once")
                ]
            },
        ),
    ]
