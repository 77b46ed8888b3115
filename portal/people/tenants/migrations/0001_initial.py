import django.contrib.auth.models
import django.contrib.auth.validators
import django.core.validators
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                (
                    "time_zone",
                    models.CharField(
                        blank=True,
                        help_text="Where its times are shown, as Europe/Berlin. Empty: its browser's.",
                        max_length=64,
                    ),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={"verbose_name": "user", "verbose_name_plural": "users", "abstract": False},
            managers=[("objects", django.contrib.auth.models.UserManager())],
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$",
                                "Use lower-case letters, digits and hyphens, 1 to 63 of them, not beginning or ending with a hyphen.",
                            )
                        ],
                    ),
                ),
                (
                    "weight",
                    models.FloatField(
                        default=1.0,
                        help_text="How large its share is against the other tenants': 2 is twice as large as 1.",
                        validators=[django.core.validators.MinValueValidator(0.001)],
                    ),
                ),
                (
                    "gpu_quota",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="The most GPUs that its jobs may hold at one time; empty: no limit.",
                        null=True,
                    ),
                ),
                (
                    "core_quota",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="The most CPU cores that its jobs may hold at one time; empty: no limit.",
                        null=True,
                    ),
                ),
                (
                    "queued_jobs_quota",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="The most jobs that may wait at one time; a further one is refused. Empty: no limit.",
                        null=True,
                    ),
                ),
                ("is_active", models.BooleanField(default=True, help_text="An inactive tenant submits nothing new.")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "unix_account",
                    models.CharField(
                        blank=True,
                        help_text="Its jobs' account on nodes that have it; elsewhere, or empty: a number of its own.",
                        max_length=32,
                        null=True,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^(?!root$)[a-z_][a-z0-9_-]{0,31}$",
                                "Give the name of an account as the nodes know it; root is never a tenant's.",
                            )
                        ],
                    ),
                ),
                (
                    "images",
                    models.TextField(
                        blank=True,
                        help_text="Container images that its jobs may use, one a line, * for any characters: docker.io/pytorch/*. Empty: none.",
                        max_length=4000,
                    ),
                ),
                (
                    "artefact_days",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Days after a job's end that its artefacts are kept, 0 for ever; empty: BERTH_ARTEFACT_DAYS.",
                        null=True,
                    ),
                ),
                (
                    "artefact_quota_gib",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="GiB that its artefacts may take; empty: the operator's figure for all (BERTH_ARTEFACT_QUOTA_GIB).",
                        null=True,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("weight__gt", 0)), name="tenant_weight_positive")
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("member", "Member"), ("manager", "Manager")],
                        default="member",
                        max_length=16,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="memberships", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="memberships", to="tenants.tenant"),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("user", "tenant"), name="membership_once")]},
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "actor_name",
                    models.CharField(help_text="As it was then; 'berth' for the system itself.", max_length=150),
                ),
                ("action", models.CharField(max_length=64)),
                ("target", models.CharField(db_index=True, help_text="kind:id, as in job:42", max_length=100)),
                ("detail", models.JSONField(default=dict)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="+", to="tenants.tenant"),
                ),
            ],
            options={"ordering": ["-at", "-id"]},
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                (
                    "prefix",
                    models.CharField(
                        help_text="The first characters of the secret, to tell tokens apart.", max_length=12
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="api_tokens", to=settings.AUTH_USER_MODEL),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        blank=True,
                        help_text="The one tenant that the token may act for; empty: all tenants of its user.",
                        null=True,
                        on_delete=models.CASCADE,
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={"ordering": ["-created_at"]},
        ),
        migrations.AddField(
            model_name="tenant",
            name="members",
            field=models.ManyToManyField(
                related_name="tenants", through="tenants.Membership", to=settings.AUTH_USER_MODEL
            ),
        ),
    ]
