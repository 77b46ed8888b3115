import uuid
from django.conf import settings
from django.db import migrations, models

from portal.foundation.events.first_migration import FirstMigration


class Migration(FirstMigration):
    dependencies = [("jobs", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="SendingLease",
            fields=[
                ("name", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("holder", models.CharField(blank=True, max_length=200)),
                ("until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Wishes",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="notification_wishes",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "mail",
                    models.JSONField(default=list, help_text="Names of events (`portal.work.notifications.words`)."),
                ),
                (
                    "waits_h",
                    models.FloatField(
                        default=24, help_text="`waits`: a job that could start waits longer than this, in hours."
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Happening",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(max_length=8)),
                (
                    "mark",
                    models.CharField(help_text="Tells it from the same of the job's other attempts.", max_length=32),
                ),
                ("at", models.DateTimeField()),
                ("job", models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="jobs.job")),
                ("detail", models.CharField(blank=True, help_text="Blank: the job's row says it.", max_length=300)),
            ],
            options={"ordering": ["id"]},
        ),
        migrations.CreateModel(
            name="Hook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("url", models.CharField(max_length=500)),
                ("secret", models.CharField(help_text="Sealed: what its messages are signed with.", max_length=300)),
                ("events", models.JSONField(default=list)),
                ("waits_h", models.FloatField(default=24)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("failures", models.PositiveIntegerField(default=0, help_text="In a row.")),
                ("rests_until", models.DateTimeField(help_text="Nothing is sent before: it failed.", null=True)),
                ("last_answer", models.CharField(blank=True, max_length=100)),
                ("last_at", models.DateTimeField(null=True)),
                ("is_active", models.BooleanField(default=True, help_text="False: it failed too often in a row.")),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="hooks", to="tenants.tenant"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="hooks", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("tenant__isnull", False), ("user", None)),
                            models.Q(("tenant", None), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="hook_of_one",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LogMatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "place",
                    models.PositiveSmallIntegerField(help_text="The pattern's place in the job's `log_matches`."),
                ),
                ("lines", models.PositiveBigIntegerField(default=0)),
                ("untold", models.PositiveBigIntegerField(default=0, help_text="Lines since the last message.")),
                ("line", models.CharField(help_text="The last such line.", max_length=200)),
                ("messages", models.PositiveSmallIntegerField(default=0)),
                (
                    "due_at",
                    models.DateTimeField(help_text="Null: nothing waits to be told, or no more will be.", null=True),
                ),
                ("job", models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="jobs.job")),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="log_match_due")
                ],
                "constraints": [models.UniqueConstraint(fields=("job", "place"), name="log_match_once")],
            },
        ),
        migrations.CreateModel(
            name="LogTail",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rank", models.PositiveSmallIntegerField()),
                ("stream", models.CharField(max_length=6)),
                ("text", models.BinaryField(help_text="How the line begins, or the last 4 KiB of that.")),
                (
                    "had",
                    models.JSONField(default=list, help_text="The places of patterns that were found in it already."),
                ),
                (
                    "attempt",
                    models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="jobs.attempt"),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("attempt", "rank", "stream"), name="log_tail_once")]
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("made_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "waiting"), ("sent", "sent"), ("given-up", "given up")],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("due_at", models.DateTimeField(help_text="Null: it is sent, or given up.", null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "hook",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="notifications.hook"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="message_due"),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="message_by_end"
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(max_length=8)),
                ("mark", models.CharField(max_length=32)),
                ("at", models.DateTimeField()),
                ("detail", models.CharField(blank=True, max_length=300)),
                (
                    "hook",
                    models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="notifications.hook"),
                ),
                ("job", models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="jobs.job")),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "message",
                    models.ForeignKey(
                        null=True, on_delete=models.CASCADE, related_name="items", to="notifications.message"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [
                    models.Index(condition=models.Q(("message", None)), fields=["user", "hook"], name="item_to_be_put")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("hook", None)),
                        fields=("job", "what", "mark", "user"),
                        name="item_once_by_mail",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("user", None)),
                        fields=("job", "what", "mark", "hook"),
                        name="item_once_by_hook",
                    ),
                ],
            },
        ),
    ]
