from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("estimation", "0001_tables"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="throughputcell",
            name="cell_aggregated_or_distributed",
        ),
        migrations.RemoveConstraint(
            model_name="throughputcell",
            name="cell_once_node_gpus",
        ),
        migrations.RemoveConstraint(
            model_name="throughputcell",
            name="cell_once_node_nodes",
        ),
        migrations.RemoveConstraint(
            model_name="throughputcell",
            name="cell_once_gpu_type_gpus",
        ),
        migrations.RemoveConstraint(
            model_name="throughputcell",
            name="cell_once_gpu_type_nodes",
        ),
        migrations.AlterField(
            model_name="throughputcell",
            name="gpus",
            field=models.PositiveIntegerField(
                help_text="The number of GPUs on all nodes together. Null: an old row, which knows only the number of nodes.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="throughputcell",
            name="nodes",
            field=models.PositiveIntegerField(
                help_text="The number of nodes, where there were several. Null: it ran on one node.", null=True
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("nodes__gt", 1), ("nodes__isnull", False)),
                    models.Q(("gpus__isnull", False), ("nodes", None)),
                    _connector="OR",
                ),
                name="cell_aggregated_or_distributed",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.CheckConstraint(
                condition=models.Q(("gpus", None), ("gpus__gt", 0), _connector="OR"), name="cell_of_gpus"
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpus__isnull", False), ("node__isnull", False), ("nodes__isnull", True)),
                fields=("signature", "node", "gpus"),
                name="cell_once_node_aggregated",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpus__isnull", False), ("node__isnull", False), ("nodes__isnull", False)),
                fields=("signature", "node", "gpus", "nodes"),
                name="cell_once_node_distributed",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpus__isnull", True), ("node__isnull", False), ("nodes__isnull", False)),
                fields=("signature", "node", "nodes"),
                name="cell_once_node_by_nodes",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpu_type__isnull", False), ("gpus__isnull", False), ("nodes__isnull", True)),
                fields=("signature", "gpu_type", "gpus"),
                name="cell_once_gpu_type_aggregated",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpu_type__isnull", False), ("gpus__isnull", False), ("nodes__isnull", False)),
                fields=("signature", "gpu_type", "gpus", "nodes"),
                name="cell_once_gpu_type_distributed",
            ),
        ),
        migrations.AddConstraint(
            model_name="throughputcell",
            constraint=models.UniqueConstraint(
                condition=models.Q(("gpu_type__isnull", False), ("gpus__isnull", True), ("nodes__isnull", False)),
                fields=("signature", "gpu_type", "nodes"),
                name="cell_once_gpu_type_by_nodes",
            ),
        ),
    ]
