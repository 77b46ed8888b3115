"""Plannings: the lease to plan, the plans and their reasons, and the knobs an operator sets."""

from django.db import models

from portal.foundation.choices import TextChoices


class OperatorSetting(models.Model):
    """A knob that an operator moved away from its default; `portal.planning.rounds.settings.knobs` knows all of them."""

    name = models.CharField(max_length=64, unique=True)
    value = models.JSONField()
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.ForeignKey("tenants.User", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class PlanningLease(models.Model):
    """One row: the present planner. Taken and given back by conditional UPDATE, the same on SQLite and Postgres."""

    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField(null=True)
    number = models.PositiveBigIntegerField(
        default=0,
        help_text="The number of the last planning. A planning is applied only if this is still its own number.",
    )
    snapshot_at = models.DateTimeField(null=True, help_text="When the last planning read the database.")
    thorough_at = models.DateTimeField(null=True, help_text="When the last planning with its whole time limit began.")
    again = models.BooleanField(
        default=False, help_text="Whether something happened while a planning ran, so that another must follow."
    )
    idle_beside_fitting = models.PositiveBigIntegerField(
        default=0,
        help_text="Idle GPUs that plannings left although a waiting job fitted them, added up over all plannings.",
    )

    def __str__(self) -> str:
        return f"planning {self.number} by {self.holder or 'nobody'}"


class Round(models.Model):
    """The plannings from one re-plan to the next."""

    number = models.PositiveBigIntegerField(unique=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    array_history = models.JSONField(
        default=dict, help_text="The history that the arrays are divided by, as it was when the round began."
    )
    metrics = models.JSONField(
        default=dict, help_text="Means over its plannings, weighted by time. {} until it has ended."
    )

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["started_at"], name="round_by_time")]

    def __str__(self) -> str:
        return f"round {self.number}"


class Planning(models.Model):
    """One solve: its input's size, the solver's figures, the cluster's metrics, and every decision with its reason."""

    class Status(TextChoices):
        APPLIED = "applied", "Applied"
        SUPERSEDED = "superseded", "Superseded"
        FAILED = "failed", "Failed"

    number = models.PositiveBigIntegerField(unique=True)
    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="plannings")
    started_at = models.DateTimeField(db_index=True)
    status = models.CharField(max_length=16, choices=Status.choices)
    error = models.TextField(blank=True)
    replan = models.BooleanField(
        default=False, help_text="Whether it could also move running elastic jobs. Else it only filled idle GPUs."
    )
    policy = models.CharField(max_length=32)
    parameters = models.JSONField(default=dict)
    queue_length = models.PositiveIntegerField(default=0)
    window_jobs = models.PositiveIntegerField(default=0)
    placed = models.PositiveIntegerField(default=0)
    dropped = models.PositiveIntegerField(
        default=0, help_text="How many placements did not fit any more when the planning was applied."
    )
    load_s = models.FloatField(default=0)
    plan_s = models.FloatField(default=0)
    apply_s = models.FloatField(default=0)
    solver = models.JSONField(default=dict)
    metrics = models.JSONField(default=dict)
    stops = models.JSONField(
        default=list, help_text="The jobs it stopped, each with job, cause, for_job, from_gpus, to_gpus and ordered."
    )
    profiles = models.JSONField(
        default=list, help_text="The profiles it ordered, each with job, gpu_type, node, limit_s and begun."
    )
    promises = models.JSONField(default=list, help_text="What it keeps free for jobs, each with job, shares and cause.")
    lapsed = models.JSONField(default=list, help_text="The jobs whose promise it took back.")
    reservations = models.JSONField(
        default=list, help_text="The nodes it keeps free for the first jobs, each with job, nodes and until."
    )
    decisions = models.BinaryField(
        default=bytes, help_text="Its decisions in packed form; `portal.planning.rounds.record.frames` reads them."
    )
    keyframe = models.PositiveBigIntegerField(
        null=True,
        help_text="To read its decisions, begin with those of the planning of this number. Null: with its own.",
    )

    class Meta:
        ordering = ["-number"]
        # Series of figures are thinned by number: without touching the rows, whose decisions are long.
        indexes = [
            models.Index(fields=["status", "started_at", "number"], name="planning_series"),
            # The last applied one, asked for everywhere: SQLite took the index above and sorted all plannings for it.
            models.Index(fields=["status", "-number"], name="planning_last"),
        ]

    def __str__(self) -> str:
        return f"planning {self.number}"


class Explanation(models.Model):
    """A planning's details of one job, kept when they changed: its reason, its side or its binding node.

    Jobs that wait outside the window have none: `Planning.decisions` and `Job.reason_figures` say all there is.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="explanations")
    planning_number = models.PositiveBigIntegerField()
    at = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=32, blank=True, help_text="Why the job waits. Empty: it was placed.")
    side = models.CharField(max_length=8, blank=True)
    detail = models.BinaryField(help_text="Figures and candidates: JSON, compressed by zlib.")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "-planning_number"], name="explanation_by_job")]

    def __str__(self) -> str:
        return f"job {self.job_id} in planning {self.planning_number}"


class StartForecast(models.Model):
    """When a waiting job is expected to start: the range as first given in this wait, and the present one."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="start_forecast")
    epoch = models.PositiveIntegerField(help_text="How many attempts the job had when the forecast was first given.")
    first_at = models.DateTimeField()
    first_earliest_at = models.DateTimeField()
    first_median_at = models.DateTimeField(null=True, help_text="Null: later than the simulated time.")
    first_latest_at = models.DateTimeField(null=True)
    at = models.DateTimeField()
    earliest_at = models.DateTimeField()
    median_at = models.DateTimeField(null=True)
    latest_at = models.DateTimeField(null=True)
    drawn = models.JSONField(
        default=list, help_text="The lowest, middle and highest wait in seconds, as first drawn, before calibration."
    )

    def __str__(self) -> str:
        return f"job {self.job_id} starts from {self.earliest_at:%H:%M} on"


class ForecastRecord(models.Model):
    """How a forecast fared: the range as first given, and when the job was placed."""

    job_number = models.PositiveBigIntegerField()
    given_at = models.DateTimeField()
    earliest_at = models.DateTimeField()
    median_at = models.DateTimeField(null=True)
    latest_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(db_index=True)
    drawn = models.JSONField(
        default=list, help_text="The same as of StartForecast. Empty: an old row, from before ranges were calibrated."
    )

    def __str__(self) -> str:
        return f"job {self.job_number} started {self.started_at:%H:%M}"


class ErrandLease(models.Model):
    """The present worker of a background errand, so that two workers do not double it."""

    name = models.CharField(max_length=32, primary_key=True)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} by {self.holder or 'nobody'}"
