"""Readings of each task of an array: its parameters, and each metric's values with a thinned curve."""

from django.db import models

NAME_CHARS = 200


class TaskReading(models.Model):
    """A task whose files were read. `parameters`: name -> number, truth value or text, from `params.json`."""

    task = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="reading")
    array = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    parameters = models.JSONField(default=dict)
    read_at = models.DateTimeField(help_text="Files kept later are read again.")

    def __str__(self) -> str:
        return f"reading of task {self.task_id}"


class TaskMetric(models.Model):
    """One metric of one task. `points`: steps and values, thinned for a plot."""

    task = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="metrics", db_index=False)
    array = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_CHARS)
    last = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    step = models.FloatField(help_text="Of the last value.")
    points = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "name"], name="task_metric_once")]
        indexes = [models.Index(fields=["array", "name", "last"], name="array_metric")]

    def __str__(self) -> str:
        return f"{self.name} of task {self.task_id}"
