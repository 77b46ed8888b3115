import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0005_node_disk")]

    operations = [
        migrations.CreateModel(
            name="TelemetryFrame",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(help_text="Of its first sample.")),
                ("packed", models.BinaryField()),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="cluster.node"
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("node", "at"), name="telemetry_frame_once")]},
        ),
        migrations.AddField(
            model_name="telemetryblock",
            name="means",
            field=models.BinaryField(
                default=bytes, help_text="Empty in blocks of a version before: made from `packed`."
            ),
        ),
        migrations.AddField(model_name="telemetrymean", name="packed", field=models.BinaryField(default=bytes)),
        migrations.AlterField(
            model_name="node", name="last_contact_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AlterField(
            model_name="telemetryblock",
            name="node",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="cluster.node"
            ),
        ),
        migrations.AlterField(
            model_name="telemetrymean",
            name="node",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="cluster.node"
            ),
        ),
    ]
