"""Plannings: who may plan now, what was planned and why, and the knobs an operator sets."""

from django.db import models

from portal.choices import TextChoices


class OperatorSetting(models.Model):
    """A knob that an operator moved away from its default; `portal.rounds.settings.knobs` knows all of them."""

    name = models.CharField(max_length=64, unique=True)
    value = models.JSONField()
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.ForeignKey("tenants.User", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class PlanningLease(models.Model):
    """One row: who plans now. Taken and given back by conditional UPDATE, the same on SQLite and Postgres."""

    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField(null=True)
    number = models.PositiveBigIntegerField(default=0, help_text="Counts plannings; applying one checks it.")
    snapshot_at = models.DateTimeField(null=True, help_text="When the last planning read the database.")
    thorough_at = models.DateTimeField(null=True, help_text="When the last planning with its whole time limit began.")
    again = models.BooleanField(default=False, help_text="A nudge came while a planning ran.")
    idle_beside_fitting = models.PositiveBigIntegerField(
        default=0, help_text="Idle GPUs that applied plannings left beside a waiting job that fitted them, summed up."
    )

    def __str__(self) -> str:
        return f"planning {self.number} by {self.holder or 'nobody'}"


class Round(models.Model):
    """The plannings from one re-plan to the next."""

    number = models.PositiveBigIntegerField(unique=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    array_history = models.JSONField(default=dict, help_text="What the arrays are divided by, as of its start.")
    metrics = models.JSONField(default=dict, help_text="Time-weighted over its plannings; {} until it has ended.")

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
        default=False, help_text="Running elastic jobs took part; else it filled what is idle."
    )
    policy = models.CharField(max_length=32)
    parameters = models.JSONField(default=dict)
    queue_length = models.PositiveIntegerField(default=0)
    window_jobs = models.PositiveIntegerField(default=0)
    placed = models.PositiveIntegerField(default=0)
    dropped = models.PositiveIntegerField(default=0, help_text="Placements that no longer fitted when applied.")
    load_s = models.FloatField(default=0)
    plan_s = models.FloatField(default=0)
    apply_s = models.FloatField(default=0)
    solver = models.JSONField(default=dict)
    metrics = models.JSONField(default=dict)
    stops = models.JSONField(
        default=list, help_text="Jobs it stopped: job, cause, for_job, from_gpus, to_gpus, ordered."
    )
    profiles = models.JSONField(default=list, help_text="Profiles it ordered: job, gpu_type, node, limit_s, begun.")
    promises = models.JSONField(default=list, help_text="What it keeps for jobs: job, shares, cause.")
    lapsed = models.JSONField(default=list, help_text="Jobs whose promise it gave up.")
    reservations = models.JSONField(default=list, help_text="Nodes kept for the first jobs: job, nodes, until.")
    decisions = models.BinaryField(default=bytes, help_text="A frame: `portal.rounds.record.frames`.")
    keyframe = models.PositiveBigIntegerField(
        null=True, help_text="Number of the planning from which on frames are read to read this one's; null: its own."
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
    """What a planning said of one job in detail, kept when it changed: its reason, its side or its binding node.

    Jobs outside the window have none: `Planning.decisions` and `Job.reason_figures` say all there is.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="explanations")
    planning_number = models.PositiveBigIntegerField()
    at = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=32, blank=True, help_text="Empty: placed.")
    side = models.CharField(max_length=8, blank=True)
    detail = models.BinaryField(help_text="zlib over JSON: figures and candidates")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "-planning_number"], name="explanation_by_job")]

    def __str__(self) -> str:
        return f"job {self.job_id} in planning {self.planning_number}"


class StartForecast(models.Model):
    """When a waiting job is expected to start: the range as first given in this wait, and the present one."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="start_forecast")
    epoch = models.PositiveIntegerField(help_text="The job's attempts when it was first given.")
    first_at = models.DateTimeField()
    first_earliest_at = models.DateTimeField()
    first_median_at = models.DateTimeField(null=True, help_text="Null: beyond what was simulated.")
    first_latest_at = models.DateTimeField(null=True)
    at = models.DateTimeField()
    earliest_at = models.DateTimeField()
    median_at = models.DateTimeField(null=True)
    latest_at = models.DateTimeField(null=True)
    drawn = models.JSONField(default=list, help_text="As first drawn, before calibration: low, middle, high wait, s.")

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
    drawn = models.JSONField(default=list, help_text="As StartForecast's; empty: from before ranges were calibrated.")

    def __str__(self) -> str:
        return f"job {self.job_number} started {self.started_at:%H:%M}"


class ErrandLease(models.Model):
    """Who does a background errand now, so that two workers do not double it."""

    name = models.CharField(max_length=32, primary_key=True)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} by {self.holder or 'nobody'}"
