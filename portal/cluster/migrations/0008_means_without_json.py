from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0007_means_by_day")]

    operations = [
        # A default first: going back, the rows get one.
        migrations.AlterField(model_name="telemetrymean", name="means", field=models.JSONField(default=dict)),
        migrations.RemoveField(model_name="telemetrymean", name="means"),
    ]
