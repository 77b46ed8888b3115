"""What a node tells of itself beside its GPUs: its links and the software that it offers."""

from rest_framework import serializers

from portal.agents.fields import Number
from portal.jobs.software import NAME_PATTERN


class Links(serializers.Serializer):
    """What a node tells of its links; null: it does not say."""

    nvlink_gbps = Number(
        allow_null=True, min_value=1e-3, max_value=1e5, help_text="Of a GPU's links together, one way."
    )
    pcie_generation = serializers.IntegerField(allow_null=True, min_value=1, max_value=20)
    pcie_lanes = serializers.IntegerField(allow_null=True, min_value=1, max_value=64)
    network_mbps = Number(allow_null=True, min_value=1, max_value=1e8)


class SoftwareOffer(serializers.Serializer):
    """What software a node offers to jobs, beside its own."""

    python = serializers.CharField(max_length=32, allow_blank=True, help_text="Of environments that it builds.")
    installer = serializers.ChoiceField(choices=["uv", "pip"], allow_null=True, help_text="Null: it builds none.")
    environments = serializers.ListField(
        child=serializers.RegexField(NAME_PATTERN), max_length=256, help_text="Those that its operator registered."
    )
    images = serializers.ListField(child=serializers.ChoiceField(choices=["apptainer", "podman"]), max_length=2)
    missing = serializers.DictField(
        child=serializers.CharField(max_length=1000), help_text="What it does not offer, why, and the remedy."
    )
