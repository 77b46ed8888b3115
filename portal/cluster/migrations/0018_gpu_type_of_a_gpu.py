import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0017_memory_traffic"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="gpu_type",
            field=models.ForeignKey(
                blank=True,
                help_text="Empty: the type of its node. A node with several types has the one that it has most of.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="cluster.gputype",
            ),
        ),
    ]
