"""Nodes in the REST API. A job of another tenant is null, never its number."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.cluster.gpu_states import instance_of
from portal.cluster.models import HEALTHS, Gpu, Node, NodeEvent
from portal.cluster.selectors import event_told
from portal.foundation.api.rows import RowSerializer

GPU_STATE = ("missing_since", "cordoned_at", "cordon_check", "cordon_reason", "cordon_remedy", "outside_since")


class NodeSerializer(RowSerializer, serializers.ModelSerializer):
    gpu_type = serializers.CharField(source="gpu_type.name", read_only=True, default=None, allow_null=True)
    health = serializers.ChoiceField(choices=HEALTHS, read_only=True)
    gpus = serializers.IntegerField(source="counts.gpus", read_only=True, help_text="GPUs that the agent sees.")
    gpus_by_type = serializers.DictField(
        source="counts.gpus_by_type",
        child=serializers.IntegerField(),
        read_only=True,
        help_text="The same by type: a node may have several. `gpu_type` is the one that it goes by.",
    )
    gpus_allocated = serializers.IntegerField(source="counts.gpus_allocated", read_only=True)
    gpus_idle = serializers.IntegerField(
        source="counts.gpus_idle",
        read_only=True,
        help_text="GPUs that a job could get whole now; 0 of a node that takes no jobs.",
    )
    gpus_for_sharing = serializers.IntegerField(
        source="counts.gpus_for_sharing",
        read_only=True,
        help_text="GPUs set aside for jobs that share one, with none on them; not among the idle ones.",
    )
    cores_allocated = serializers.IntegerField(source="counts.cores_allocated", read_only=True)
    gpu_active_rate = serializers.FloatField(
        source="active.gpus", read_only=True, allow_null=True, help_text="GPUs held over the last `hours`, 0 to 1."
    )
    cpu_active_rate = serializers.FloatField(
        source="active.cores", read_only=True, allow_null=True, help_text="Cores held over the last `hours`, 0 to 1."
    )
    memory_allocated_mib = serializers.IntegerField(source="counts.memory_allocated_mib", read_only=True)

    class Meta:
        model = Node
        fields = """
            name health gpu_type gpus gpus_by_type gpus_allocated gpus_idle gpus_for_sharing
            cores cores_allocated memory_mib memory_allocated_mib gpu_active_rate cpu_active_rate
            storage_domain agent_version is_virtual registered_at last_contact_at drained_at drain_reason dead_at
            disk_free_mib disk_total_mib
        """.split()
        read_only_fields = fields


class GpuSerializer(serializers.Serializer):
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    gpu_type = serializers.CharField(allow_null=True, help_text="Its type; null: its node told none.")
    profile = serializers.CharField(
        allow_null=True, help_text="Of an instance (MIG), which takes jobs of one GPU: `1g.10gb`. Null: a whole GPU."
    )
    memory_mib = serializers.IntegerField()
    missing_since = serializers.DateTimeField(allow_null=True, help_text="Since when the agent does not see it.")
    cordoned_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when no new job gets it; null: it is not cordoned."
    )
    cordon_check = serializers.CharField(help_text="Which check cordoned it; empty: an operator, or nobody.")
    cordon_reason = serializers.CharField(help_text="Why it is cordoned; empty: it is not.")
    cordon_remedy = serializers.CharField(help_text="What to do about it; empty: nothing is known.")
    outside_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when a process outside Berth computes on it, so that no new job gets it."
    )
    sample = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Its last figures by the names in docs/agent-protocol.md. What was not measured is absent.",
    )
    mode = serializers.ChoiceField(choices=Gpu.Mode.choices, help_text="shared: several jobs may have parts of it.")
    allocated = serializers.BooleanField()
    job = serializers.IntegerField(
        allow_null=True,
        help_text="The number of the job that holds it, of a shared one the first; null: none does, or only other tenants' jobs. "
        "`running` names every job.",
    )


class NodeFindingSerializer(serializers.Serializer):
    subject = serializers.CharField(help_text="node, or gpu:INDEX")
    check = serializers.CharField(help_text="Which check found it: the names stand in the operator's guide.")
    level = serializers.ChoiceField(
        choices=["warn", "drain", "fail"],
        help_text="warn: told only; drain: no new jobs there; fail: what runs there and may run again is stopped, too.",
    )
    detail = serializers.CharField(help_text="What was found.")
    remedy = serializers.CharField(help_text="What to do about it; empty: nothing is known.")


class NodeMemoryTrafficSerializer(serializers.Serializer):
    gb_s = serializers.FloatField(allow_null=True, help_text="What its memory can do, 10^9 bytes a second.")
    meter = serializers.CharField(help_text="How its traffic is known; empty: it is not.")
    throttle = serializers.CharField(help_text="How a CPU job is held back there; empty: not at all.")


class NodePartSerializer(serializers.Serializer):
    job = serializers.IntegerField(allow_null=True, help_text="The job's number; null: it is another tenant's.")
    gpus = serializers.ListField(child=serializers.IntegerField())
    gpu_compute = serializers.FloatField(
        allow_null=True, help_text="The share of its one GPU that it holds beside others; null: its GPUs are its own."
    )
    gpu_memory_mib = serializers.IntegerField(allow_null=True, help_text="Of that GPU's memory.")
    cores = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    state = serializers.CharField()


class NodeEventSerializer(serializers.ModelSerializer):
    """Its context has the `user` who reads it."""

    class Meta:
        model = NodeEvent
        fields = ["at", "kind", "detail", "actor_name"]
        read_only_fields = fields

    def to_representation(self, instance: NodeEvent) -> dict[str, Any]:
        detail, actor_name = event_told(instance, self.context["user"])
        return super().to_representation(instance) | {"detail": detail, "actor_name": actor_name}


class NodeDetailSerializer(NodeSerializer):
    gpu_list = serializers.SerializerMethodField()
    findings = NodeFindingSerializer(many=True, read_only=True, help_text="What its checks find now.")
    memory_traffic = serializers.SerializerMethodField(help_text="Null: an older agent, which does not say.")
    running = NodePartSerializer(source="used.parts", many=True, read_only=True)
    events = serializers.SerializerMethodField(help_text="The last 20.")

    class Meta(NodeSerializer.Meta):
        fields = [
            *NodeSerializer.Meta.fields,
            *"heartbeat_s findings memory_traffic memory_share gpu_list running events".split(),
        ]
        read_only_fields = fields

    @extend_schema_field(GpuSerializer(many=True))
    def get_gpu_list(self, node: Node) -> list[dict[str, Any]]:
        held, samples = node.used["gpus"], node.live_gpus
        rows = [
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "gpu_type": gpu.type_of(node),
                "profile": cut.profile if (cut := instance_of(gpu.type_of(node))) else None,
                "memory_mib": gpu.memory_mib,
                **{name: getattr(gpu, name) for name in GPU_STATE},
                "sample": samples.get(str(gpu.index), {}),
                "mode": gpu.mode,
                "allocated": gpu.index in held,
                "job": held.get(gpu.index),
            }
            for gpu in node.gpus.select_related("gpu_type")
        ]
        return GpuSerializer(rows, many=True).data

    @extend_schema_field(NodeMemoryTrafficSerializer(allow_null=True))
    def get_memory_traffic(self, node: Node) -> dict[str, Any] | None:
        return node.memory_traffic or None

    @extend_schema_field(NodeEventSerializer(many=True))
    def get_events(self, node: Node) -> list[dict[str, Any]]:
        return NodeEventSerializer(node.events.all()[:20], many=True, context=self.context).data
