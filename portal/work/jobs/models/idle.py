"""How long a running attempt has not been used: counted from measurements, and kept here over restarts of any process."""

from django.db import models

from portal.work.jobs.models.attempts import Attempt


class IdleWatch(models.Model):
    """The watch of an attempt whose job has an idle time-out. A use sets all to zero and `uses` one up."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="idle_watch")
    frame = models.BigIntegerField(help_text="The last row of telemetry that was looked at.")
    parts = models.JSONField(default=dict, help_text="Seconds for which each node saw it idle, by the node's id.")
    idle_s = models.FloatField(default=0, help_text="The least of them: so long it was idle everywhere.")
    warned_idle_s = models.FloatField(null=True, help_text="`idle_s` when people were warned. Null: they were not.")
    uses = models.PositiveBigIntegerField(default=0)
    used_at = models.DateTimeField(help_text="When it was last used, or began.")
    used_by = models.CharField(max_length=16, blank=True, help_text="What that was. Blank: it began then.")

    def __str__(self) -> str:
        return f"{self.attempt}: idle for {self.idle_s:g} s"
