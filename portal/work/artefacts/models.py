"""Files that jobs wrote to `$BERTH_ARTEFACTS`: a row for each file, each job, and each tenant's use.

The bytes lie in `portal.work.artefacts.store` under random names; a path that a tenant chose is text here and nowhere a name.
"""

from datetime import UTC, datetime, timedelta

from django.db import models

from portal.foundation.choices import TextChoices

PATH_CHARS = 1024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Artefact(models.Model):
    """One file, kept or on its way: a newer content takes the older one's place when it is whole."""

    class State(TextChoices):
        KEPT = "kept", "kept"
        UPLOADING = "uploading", "uploading"
        NOT_KEPT = "not_kept", "not kept"

    # db_index=False: the unique pair begins with it.
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="artefacts", db_index=False)
    path = models.CharField(max_length=PATH_CHARS, help_text="Relative to the folder, parts divided by /.")
    rank = models.PositiveSmallIntegerField(help_text="The part of the attempt that wrote it last.")
    epoch = models.PositiveIntegerField(help_text="The attempt that wrote it last.")
    size = models.PositiveBigIntegerField(null=True, help_text="Bytes that are kept. Null: nothing yet.")
    modified_ns = models.BigIntegerField(default=0, help_text="By its node's clock, nanoseconds since 1970.")
    sha256 = models.CharField(max_length=64, blank=True)
    blob = models.CharField(max_length=32, blank=True)
    kept_at = models.DateTimeField(null=True)
    told_size = models.PositiveBigIntegerField(null=True, help_text="Of the content on its way. Null: none is.")
    told_ns = models.BigIntegerField(default=0)
    incoming = models.CharField(max_length=32, blank=True)
    reason = models.CharField(max_length=300, blank=True, help_text="Why the newest content is not kept.")
    counted = models.PositiveBigIntegerField(default=0, help_text="Bytes that it takes of the tenant's quota.")

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["job", "path"], name="artefact_path_once")]

    def __str__(self) -> str:
        return f"{self.path} of job {self.job_id}"

    @property
    def state(self) -> str:
        """`kept` also where a newer content is on its way, or was refused: the kept one can be read."""
        if self.size is not None:
            return self.State.KEPT
        return self.State.UPLOADING if self.incoming else self.State.NOT_KEPT

    @property
    def modified_at(self) -> datetime:
        """The file's last write by its node's clock: of the kept content, else of the one on its way."""
        return EPOCH + timedelta(microseconds=(self.modified_ns if self.size is not None else self.told_ns) // 1000)


class JobArtefacts(models.Model):
    """A job that wrote artefacts: how much, and its nodes' notes on files that they could not take."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="artefacts_row")
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")
    files = models.PositiveIntegerField(default=0)
    counted = models.PositiveBigIntegerField(default=0)
    notes = models.JSONField(default=dict, help_text="By rank: files that a node does not send, as [path, why].")
    left_out = models.JSONField(
        default=dict, help_text="How many more than `notes` has: by rank a number, of the portal's own a sign of each."
    )
    removed = models.JSONField(
        default=dict,
        help_text="Paths that a user removed, and when (ns since 1970): older files there are not taken again.",
    )
    looked_at = models.DateTimeField(help_text="When a node last told of its files.")

    def __str__(self) -> str:
        return f"artefacts of job {self.job_id}"


class TenantArtefacts(models.Model):
    """A tenant's use by artefacts. Each change of that locks it."""

    tenant = models.OneToOneField("tenants.Tenant", on_delete=models.CASCADE, primary_key=True, related_name="+")
    counted = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"artefacts of tenant {self.tenant_id}"
