"""Files that tenants send for their jobs: contents by hash, their senders, and uploads, which give contents their paths."""

from __future__ import annotations

from django.db import models

from portal.people.tenants.models import OfTenants, Tenant


class Blob(models.Model):
    """A content that lies on the disk once, for all its senders. Its row is there exactly as long as its file."""

    sha256 = models.CharField(max_length=64, unique=True)
    size_bytes = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return self.sha256


class Holding(models.Model):
    """A tenant has sent this content. Nobody learns that others have it too: each tenant sends it once itself."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="holdings")
    at = models.DateTimeField(help_text="When it was sent, or last named in an upload.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "blob"], name="holding_once")]

    def __str__(self) -> str:
        return f"{self.tenant_id} has {self.blob_id}"


class Upload(models.Model):
    """A set of files with their paths, named by the hash of its list. It never changes; jobs refer to it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(db_index=True, help_text="When it was last sent or submitted with a job.")

    objects = OfTenants.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "digest"], name="upload_once")]

    def __str__(self) -> str:
        return self.digest


class UploadFile(models.Model):
    """One file of an upload."""

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="files")
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    path = models.CharField(max_length=1024)
    executable = models.BooleanField(default=False)

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["upload", "path"], name="upload_path_once")]

    def __str__(self) -> str:
        return self.path
