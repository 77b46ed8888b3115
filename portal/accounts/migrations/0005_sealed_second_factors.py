from django.conf import settings
from django.db import migrations, models

from portal.secret_key import MARK, seal, unseal


def _each(apps, change):
    rows = list(apps.get_model("accounts", "SecondFactor").objects.all())
    if rows and settings.SECRET_KEY_PROBLEM:
        raise RuntimeError(
            f"{settings.SECRET_KEY_PROBLEM} Second factors are sealed with it; name its file in BERTH_SECRET_KEY_FILE."
        )
    for row in rows:
        row.sealed = change(row.sealed)
        row.save(update_fields=["sealed"])


def secrets_seal(apps, _schema):
    """Seal what was kept in plain text."""
    _each(apps, lambda text: text if text.startswith(MARK) else seal(text))


def secrets_open(apps, _schema):
    _each(apps, lambda text: unseal(text) if text.startswith(MARK) else text)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_job_lists")]

    operations = [
        migrations.RenameField("secondfactor", "secret", "sealed"),
        migrations.AlterField(
            "secondfactor",
            "sealed",
            models.CharField(max_length=300, help_text="Its secret, sealed (`portal.secret_key`)."),
        ),
        migrations.RunPython(secrets_seal, secrets_open),
    ]
