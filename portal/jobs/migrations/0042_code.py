from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0041_inputs_of_old_jobs")]

    operations = [
        migrations.AddField(
            model_name="jobpayload",
            name="code",
            field=models.JSONField(
                default=dict,
                help_text="Where its code comes from: git, ref, secret and the commit that was found first; or path. {}: its files.",
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="commit",
            field=models.CharField(
                blank=True, default="", help_text="The commit of its code, as its nodes fetched it.", max_length=64
            ),
            preserve_default=False,
        ),
    ]
