"""The rows that belong to one person: things looked at, sessions, columns and views of the job list."""

from django.conf import settings
from django.db import models

from portal.foundation.secret_key import unseal


class Looked(models.Model):
    """A person looked at a job's end, or put a note about the job aside: the overview asks no more about it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    what = models.CharField(max_length=16, help_text="end: how it ended; offer; limit: its time limit.")
    at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "job", "what"], name="looked_once")]

    def __str__(self) -> str:
        return f"{self.user_id} looked at {self.what} of job {self.job_id}"


class SignIn(models.Model):
    """A browser session of a person, so that the person can see and end it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, unique=True)
    at = models.DateTimeField(auto_now_add=True)
    address = models.CharField(max_length=45, blank=True)
    browser = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.user_id} signed in at {self.at:%H:%M}"


class Invitation(models.Model):
    """A link by which one person joins a tenant, once. Only the secret's SHA-256 is kept."""

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-made_at"]

    def __str__(self) -> str:
        return f"invitation to {self.tenant_id} as {self.role}"


class SecondFactor(models.Model):
    """A person's codes by time (TOTP). It counts once it was confirmed with a code."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="second_factor"
    )
    sealed = models.CharField(max_length=300, help_text="Its secret, sealed (`portal.foundation.secret_key`).")
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0, help_text="The time step of the last code: none is taken twice.")
    wrong = models.JSONField(default=list, help_text="Wrong codes of late: the address of each, and its time.")
    recovery = models.JSONField(default=list, help_text="SHA-256 of each recovery code that was not used yet.")

    def __str__(self) -> str:
        return f"second factor of {self.user_id}"

    @property
    def secret(self) -> str:
        """Return the secret that codes are made from. Raises SealBroken where the signing key was replaced."""
        return unseal(self.sealed)


class JobColumns(models.Model):
    """The columns that a person chose for the job list, in order."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    columns = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"columns of {self.user_id}"


class JobView(models.Model):
    """A job list that a person saved under a name: filters, order and columns; shared with a tenant's members or not."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey(
        "tenants.Tenant", null=True, on_delete=models.CASCADE, related_name="+", help_text="Null: its owner's alone."
    )
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, blank=True, help_text="Filters and order as they stand in the address.")
    columns = models.JSONField(default=list)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="job_view_name_once")]

    def __str__(self) -> str:
        return f"{self.name} of {self.owner_id}"
