"""Which backups were made. By these rows Berth knows when the next one is due, and that one is missing."""

from django.db import models

from portal.foundation.choices import TextChoices


class Backup(models.Model):
    """A backup that was made, and how it was checked; or the one from which this database was restored."""

    class Kind(TextChoices):
        MADE = "made", "made"
        RESTORED = "restored", "restored from"

    class Proof(TextChoices):
        RESTORED = "restored", "restored into a scratch database"
        READ = "read", "read back and counted"

    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.MADE)
    at = models.DateTimeField(db_index=True, help_text="Of its data.")
    path = models.CharField(max_length=1024)
    size_bytes = models.PositiveBigIntegerField()
    took_s = models.FloatField()
    proof = models.CharField(max_length=8, choices=Proof.choices)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"backup of {self.at:%F %T} in {self.path}"
