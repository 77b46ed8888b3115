"""The planner's offers to waiting jobs, kept so that a page that is loaded again costs no planning."""

from django.db import models


class JobOffers(models.Model):
    """The last answer for one job, and the worker that makes the next one."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="offers")
    planning_number = models.PositiveBigIntegerField(default=0, help_text="The last planning before it was worked out.")
    asked = models.JSONField(default=dict, help_text="What the job asked for then.")
    at = models.DateTimeField(null=True, help_text="When it was worked out. Null: not yet.")
    took_s = models.FloatField(default=0)
    answer = models.JSONField(default=dict)
    until = models.DateTimeField(null=True, help_text="Somebody works it out anew, until then at the latest.")

    def __str__(self) -> str:
        return f"offers for job {self.job_id}"
