from django.db import migrations, models


class Migration(migrations.Migration):
    """What a node says of itself: how its jobs are kept out of Berth's files, and what is wrong with it."""

    dependencies = [
        ("cluster", "0008_means_without_json"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="isolation",
            field=models.JSONField(
                default=dict, help_text="How its jobs are kept out of Berth's own files, as it says."
            ),
        ),
        migrations.AddField(
            model_name="node",
            name="problems",
            field=models.JSONField(
                default=list, help_text="What its agent tells the operator: [{at, subject, detail}]."
            ),
        ),
    ]
