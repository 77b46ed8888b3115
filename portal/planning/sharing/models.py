"""A shadow's decisions beside the policy that acts, and learned policies that are proposed."""

from django.db import models

from portal.foundation.choices import TextChoices


class ShadowPlanning(models.Model):
    """A planning whose sharing step was asked of the shadow too, and the figures of both answers."""

    number = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField(db_index=True)
    acting = models.CharField(max_length=16)
    shadow = models.CharField(max_length=16)
    asked = models.PositiveIntegerField(default=0, help_text="How many jobs both were asked about.")
    agreed = models.PositiveIntegerField(default=0)
    left_out = models.PositiveIntegerField(default=0, help_text="Jobs beyond those that are compared or kept.")
    skipped = models.PositiveIntegerField(
        default=0, help_text="Plannings before it that were not compared: the shadow was still deciding."
    )
    use = models.JSONField(
        default=dict, help_text="By side: GPUs, those taken, jobs, expected use and use alone in per cent."
    )
    spent_ms = models.FloatField(default=0.0, help_text="How long it took, beside the planning.")
    error = models.CharField(max_length=500, blank=True, help_text="Why it gave no answer.")

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"{self.shadow} beside {self.acting} in planning {self.number}"


class ShadowDecision(models.Model):
    """Both decisions on a job. One row for each change: a job waits through many plannings."""

    planning = models.ForeignKey(ShadowPlanning, on_delete=models.CASCADE, related_name="decisions")
    at = models.DateTimeField(db_index=True)
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    signature = models.CharField(max_length=200)
    compute = models.PositiveSmallIntegerField()
    memory_mib = models.PositiveIntegerField()
    acting = models.JSONField(help_text="Where it starts and by which rule, or how many GPUs are closed by each rule.")
    shadow = models.JSONField(help_text="The same of the shadow.")
    acting_admits = models.BooleanField()
    shadow_admits = models.BooleanField()
    acting_rule = models.CharField(max_length=16, help_text="By which it starts, or which closes most GPUs.")
    shadow_rule = models.CharField(max_length=16)
    acting_slowdown = models.FloatField(null=True, help_text="By the pairs measured until then. Null: not measured.")
    shadow_slowdown = models.FloatField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "-id"], name="shadow_decision_by_job")]

    def __str__(self) -> str:
        return f"job {self.job_id}: {self.acting_rule}, {self.shadow_rule}"


class Proposal(models.Model):
    """A learned policy, trained from the cluster's own history: an operator accepts it or not. It never acts by itself."""

    class State(TextChoices):
        WAITING = "waiting", "waits for its training"
        TRAINING = "training", "is being trained"
        READY = "ready", "waits for a decision"
        ACCEPTED = "accepted", "accepted"
        REJECTED = "rejected", "rejected"
        FAILED = "failed", "failed"

    created_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    asked_by_name = models.CharField(max_length=150, blank=True, help_text="Empty: it was due.")
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="When its training ended.")
    content = models.BinaryField(default=bytes, help_text="The policy's file, until somebody has decided.")
    about = models.JSONField(default=dict, help_text="The training record: what it learned from, and how.")
    curve = models.JSONField(default=list, help_text="What an episode cost on average, by update.")
    judged = models.JSONField(
        default=dict,
        help_text="Figures on workloads that it was not trained on: its own, the present file's, cbp-pp's.",
    )
    error = models.CharField(max_length=500, blank=True)
    decided_by_name = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=models.Q(state="training"), name="one_proposal_in_training"
            ),
            models.UniqueConstraint(fields=["state"], condition=models.Q(state="waiting"), name="one_proposal_waits"),
        ]

    def __str__(self) -> str:
        return f"proposal {self.pk}: {self.state}"
