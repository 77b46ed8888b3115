"""What plannings left idle beside jobs that fitted, as one sum: a counter that no pruning of plannings takes back."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rounds", "0010_planning_frames"),
    ]

    operations = [
        migrations.AddField(
            model_name="planninglease",
            name="idle_beside_fitting",
            field=models.PositiveBigIntegerField(
                default=0,
                help_text="Idle GPUs that plannings left although a waiting job fitted them, added up over all plannings.",
            ),
        ),
    ]
