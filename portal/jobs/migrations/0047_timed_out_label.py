from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0046_unfinished_limits_and_runs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="attempt",
            name="state",
            field=models.CharField(
                choices=[
                    ("STARTING", "Starting"),
                    ("RUNNING", "Running"),
                    ("COMPLETED", "Completed"),
                    ("FAILED", "Failed"),
                    ("TIMEOUT", "Timed out"),
                    ("CANCELLED", "Cancelled"),
                    ("OUT_OF_MEMORY", "Out of memory"),
                    ("NODE_FAIL", "Node failed"),
                    ("PREEMPTED", "Preempted"),
                ],
                default="STARTING",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="state",
            field=models.CharField(
                choices=[
                    ("PENDING", "Waiting"),
                    ("HELD", "Held"),
                    ("STARTING", "Starting"),
                    ("RUNNING", "Running"),
                    ("PREEMPTED", "Preempted"),
                    ("COMPLETED", "Completed"),
                    ("FAILED", "Failed"),
                    ("TIMEOUT", "Timed out"),
                    ("CANCELLED", "Cancelled"),
                    ("OUT_OF_MEMORY", "Out of memory"),
                    ("NODE_FAIL", "Node failed"),
                ],
                default="PENDING",
                max_length=16,
            ),
        ),
    ]
