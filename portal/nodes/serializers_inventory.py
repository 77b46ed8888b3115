"""A node's own description, checked at the door."""

from typing import Any

from rest_framework import serializers

from portal.nodes.fields import MOST_GPUS, Number, inventory_check
from portal.work.jobs.software import NAME_PATTERN


class GpuInventory(serializers.Serializer):
    index = serializers.IntegerField(min_value=0, max_value=MOST_GPUS - 1)
    uuid = serializers.CharField(max_length=64)
    memory_mib = serializers.IntegerField(min_value=1, max_value=2**24)
    gpu_type = serializers.CharField(
        max_length=64, required=False, help_text="Its type; absent: the inventory's `gpu_type`."
    )


class Wall(serializers.Serializer):
    """One kind of what keeps a node's jobs apart: `by` what means; empty where it does not stand, then `why`."""

    name = serializers.RegexField(r"^[a-z]{1,20}$")
    by = serializers.CharField(max_length=20, allow_blank=True)
    why = serializers.CharField(max_length=300, allow_blank=True)


class Isolation(serializers.Serializer):
    """How a node keeps jobs out of Berth's own files: `files` and `signals` say of what, `why` what is missing."""

    files = serializers.BooleanField()
    signals = serializers.BooleanField()
    landlock = serializers.IntegerField(
        min_value=0, max_value=1000, help_text="The version of Landlock that the kernel has; 0: none."
    )
    why = serializers.CharField(max_length=300, allow_blank=True)
    walls = Wall(many=True, required=False, max_length=20)


class Links(serializers.Serializer):
    """What a node tells of its links; null: it does not say."""

    nvlink_gbps = Number(
        allow_null=True, min_value=1e-3, max_value=1e5, help_text="All NVLinks of one GPU together, in GB/s, one way."
    )
    pcie_generation = serializers.IntegerField(allow_null=True, min_value=1, max_value=20)
    pcie_lanes = serializers.IntegerField(allow_null=True, min_value=1, max_value=64)
    network_mbps = Number(allow_null=True, min_value=1, max_value=1e8)
    addresses = serializers.ListField(
        child=serializers.IPAddressField(),
        required=False,
        max_length=64,
        help_text="All by which other nodes may know it, those of InfiniBand too.",
    )


class MemoryTraffic(serializers.Serializer):
    """How a node knows its memory's traffic, and how it can hold a CPU job back from it; empty: not at all."""

    gb_s = Number(allow_null=True, min_value=1e-3, max_value=1e6, help_text="What its memory can do; null: not known.")
    meter = serializers.ChoiceField(choices=["resctrl", "probe", "simulated"], allow_blank=True)
    throttle = serializers.ChoiceField(choices=["mba", "quota2", "quota1", "cores"], allow_blank=True)


class SoftwareOffer(serializers.Serializer):
    """What software a node offers to jobs, beside its own."""

    python = serializers.CharField(max_length=32, allow_blank=True, help_text="Of environments that it builds.")
    installer = serializers.ChoiceField(choices=["uv", "pip"], allow_null=True, help_text="Null: it builds none.")
    images = serializers.ChoiceField(
        choices=["apptainer"], allow_null=True, required=False, help_text="What runs container images; null: nothing."
    )
    git = serializers.BooleanField(required=False, help_text="It fetches repositories.")
    environments = serializers.ListField(
        child=serializers.RegexField(NAME_PATTERN), max_length=256, help_text="By name; that it has."
    )
    missing = serializers.DictField(
        child=serializers.CharField(max_length=1000), help_text="What it does not offer, why, and the remedy."
    )


class Inventory(serializers.Serializer):
    name = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    address = serializers.CharField(max_length=255)
    boot_id = serializers.CharField(max_length=64)
    agent_version = serializers.CharField(max_length=32)
    virtual = serializers.BooleanField()
    single_account = serializers.BooleanField()
    trusts_tenants = serializers.BooleanField()
    isolation = Isolation(required=False)
    links = Links(required=False)
    memory_traffic = MemoryTraffic(required=False)
    software = SoftwareOffer(required=False)
    gpu_type = serializers.CharField(max_length=64, allow_null=True)
    gpus = GpuInventory(many=True, max_length=MOST_GPUS)
    cores = serializers.IntegerField(min_value=1, max_value=65536)
    memory_mib = serializers.IntegerField(min_value=1, max_value=2**39)
    storage_domain = serializers.CharField(max_length=100, allow_null=True, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        inventory_check(attrs)
        return attrs
