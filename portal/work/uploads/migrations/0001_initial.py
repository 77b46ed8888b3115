from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Blob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("size_bytes", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "used_at",
                    models.DateTimeField(db_index=True, help_text="When it was last sent or submitted with a job."),
                ),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("tenant", "digest"), name="upload_once")]},
        ),
        migrations.CreateModel(
            name="UploadFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=1024)),
                ("executable", models.BooleanField(default=False)),
                ("blob", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="uploads.blob")),
                ("upload", models.ForeignKey(on_delete=models.CASCADE, related_name="files", to="uploads.upload")),
            ],
            options={
                "ordering": ["path"],
                "constraints": [models.UniqueConstraint(fields=("upload", "path"), name="upload_path_once")],
            },
        ),
        migrations.CreateModel(
            name="Holding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(help_text="When it was sent, or last named in an upload.")),
                ("blob", models.ForeignKey(on_delete=models.PROTECT, related_name="holdings", to="uploads.blob")),
                ("tenant", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="tenants.tenant")),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("tenant", "blob"), name="holding_once")]},
        ),
    ]
