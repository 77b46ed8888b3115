from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_initial")]

    operations = [
        migrations.AddField(
            model_name="allocation",
            name="missed_at",
            field=models.DateTimeField(help_text="Its node, in contact, first did not name it.", null=True),
        ),
    ]
