"""What was done about an attempt's cores while it ran: their tuning, and when it was slowed for a node's memory."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.work.jobs.models import CoreSearch, CoreStep, Slowing


class CoreStepSerializer(serializers.ModelSerializer):
    class Meta:
        model = CoreStep
        fields = ("number", "cores_per_gpu", "from_at", "to_at", "utilisation", "samples_per_s")
        read_only_fields = fields
        extra_kwargs = {
            "number": {"help_text": "Which step of the search it is."},
            "cores_per_gpu": {"help_text": "The cores for each GPU that were held meanwhile."},
            "from_at": {"help_text": "When measuring began."},
            "to_at": {"help_text": "When measuring ended."},
        }


class CoreSearchSerializer(serializers.ModelSerializer):
    """How the cores of an attempt were tuned: each number a GPU that was tried, and the best so far."""

    signal = serializers.ChoiceField(
        choices=CoreSearch.Signal.choices,
        allow_blank=True,
        read_only=True,
        help_text="What is compared; empty: nothing yet.",
    )
    outcome = serializers.ChoiceField(
        choices=CoreSearch.Outcome.choices, allow_blank=True, read_only=True, help_text="Empty while it goes on."
    )
    best = serializers.IntegerField(
        source="state.best", read_only=True, help_text="The best number of cores for each GPU so far."
    )
    steps = CoreStepSerializer(many=True, read_only=True)

    class Meta:
        model = CoreSearch
        fields = ("signal", "outcome", "best", "steps", "begun_at", "done_at")
        read_only_fields = fields


class SlowingSerializer(serializers.ModelSerializer):
    """One time that a CPU job's attempt was slowed, because it took memory bandwidth from a training job."""

    node = serializers.CharField(source="node.name", read_only=True)
    helped = serializers.SerializerMethodField(
        help_text="The training job that it was slowed for; null: another tenant's."
    )
    cause = serializers.ChoiceField(choices=Slowing.Cause.choices, read_only=True)
    outcome = serializers.ChoiceField(
        choices=Slowing.Outcome.choices, allow_blank=True, read_only=True, help_text="Empty while it is slowed."
    )

    class Meta:
        model = Slowing
        fields = ("node", "helped", "means", "cause", "share", "drew", "lost", "from_at", "to_at", "outcome")
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_helped(self, slowing: Slowing) -> str | None:
        other = slowing.helped.job if slowing.helped else None
        return other.number if other and other.tenant_id == slowing.attempt.job.tenant_id else None
