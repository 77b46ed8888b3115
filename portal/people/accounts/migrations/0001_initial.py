from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="JobColumns",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("columns", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("confirmed_at", models.DateTimeField(null=True)),
                (
                    "last_step",
                    models.BigIntegerField(default=0, help_text="The time step of the last code: none is taken twice."),
                ),
                (
                    "recovery",
                    models.JSONField(default=list, help_text="SHA-256 of each recovery code that was not used yet."),
                ),
                (
                    "sealed",
                    models.CharField(help_text="Its secret, sealed (`portal.foundation.secret_key`).", max_length=300),
                ),
                (
                    "wrong",
                    models.JSONField(default=list, help_text="Wrong codes of late: the address of each, and its time."),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(max_length=16)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="invitations", to="tenants.tenant"),
                ),
                (
                    "used_by",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"ordering": ["-made_at"]},
        ),
        migrations.CreateModel(
            name="SignIn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_key", models.CharField(max_length=40, unique=True)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("address", models.CharField(blank=True, max_length=45)),
                ("browser", models.CharField(blank=True, max_length=200)),
                (
                    "user",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="sign_ins", to=settings.AUTH_USER_MODEL),
                ),
            ],
            options={"ordering": ["-at"]},
        ),
        migrations.CreateModel(
            name="JobView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                (
                    "query",
                    models.CharField(
                        blank=True, help_text="Filters and order as they stand in the address.", max_length=2000
                    ),
                ),
                ("columns", models.JSONField(default=list)),
                ("owner", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                (
                    "tenant",
                    models.ForeignKey(
                        help_text="Null: its owner's alone.",
                        null=True,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["name", "id"],
                "constraints": [models.UniqueConstraint(fields=("owner", "name"), name="job_view_name_once")],
            },
        ),
        migrations.CreateModel(
            name="Looked",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(help_text="end: how it ended; offer; limit: its time limit.", max_length=16)),
                ("at", models.DateTimeField(auto_now=True)),
                ("job", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="jobs.job")),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("user", "job", "what"), name="looked_once")]},
        ),
    ]
