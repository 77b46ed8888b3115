"""What belongs to one person alone: what the person has looked at."""

from django.conf import settings
from django.db import models


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
