"""GPU types and nodes, for operators; join tokens beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from portal.cluster import admin_joining
from portal.cluster.models import Gpu, GpuType, JoinToken, NamedEnvironment, Node, NodeEvent
from portal.cluster.services import health, joining, operating, sharing
from portal.foundation.console.base import (
    Command,
    ConsoleAdmin,
    ConsoleInline,
    DescribeForm,
    GpuForm,
    GpuReasonForm,
    HeartbeatForm,
    ReasonForm,
    adopt,
    calls,
)
from portal.foundation.console.show import NAMES, ago, column, facts, mark, mib

if TYPE_CHECKING:
    from django import forms

NAMES.update({"node": (Node, "name"), "gpu-type": (GpuType, "name")})
admin.site.register(JoinToken, admin_joining.JoinTokenAdmin)
admin.site.register(NamedEnvironment, admin_joining.NamedEnvironmentAdmin)


@admin.register(GpuType)
class GpuTypeAdmin(ConsoleAdmin):
    """GPU types come with the nodes that have them. The operator says their relative speed and their weight in shares."""

    may_change = True
    list_display = ("name", "memory", "relative_speed", "share_weight", "nodes_count")
    fields = ("name", "memory", "relative_speed", "share_weight")
    readonly_fields = ("name", "memory")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(count=Count("nodes"))

    @admin.display(description="Memory of a GPU", ordering="memory_mib")
    def memory(self, obj: GpuType) -> str:
        return mib(obj.memory_mib)

    @admin.display(description="Nodes", ordering="count")
    def nodes_count(self, obj: Any) -> int:
        return obj.count

    def save_model(self, request: HttpRequest, obj: GpuType, form: forms.ModelForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in ("relative_speed", "share_weight")}
        adopt(obj, joining.gpu_type_upsert(name=obj.name, **values, actor=request.user))


UUID = column("uuid", "UUID")
GPU_TYPE = column("gpu_type", "GPU type")


class GpuInline(ConsoleInline):
    model = Gpu
    fields = readonly_fields = ("index", UUID, "memory", "mode", "missing_since", "state")
    verbose_name_plural = "GPUs"

    @admin.display(description="Takes jobs")
    def state(self, obj: Gpu) -> str:
        return f"no, {obj.closed_because}. {obj.cordon_remedy}".rstrip(" .") if obj.closed_because else "yes"

    @admin.display(description="Memory")
    def memory(self, obj: Gpu) -> str:
        return mib(obj.memory_mib)


class NodeEventInline(ConsoleInline):
    model = NodeEvent
    fields = readonly_fields = ("at", "kind", "detail", "actor_name")
    per_page = 20
    verbose_name_plural = "What happened to it"


@admin.register(Node)
class NodeAdmin(ConsoleAdmin):
    list_display = ("name", "health_shown", GPU_TYPE, "gpus_count", "cores", "memory", "contact", "agent_version")
    list_filter = ("gpu_type", "rack", "label", "is_virtual", "storage_domain")
    list_select_related = ("gpu_type",)
    search_fields = ("name", "address")
    inlines = (GpuInline, NodeEventInline)
    fieldsets = (
        (None, {"fields": ("name", "health_shown", "contact", "drained_at", "drain_reason", "dead_at")}),
        ("What it has", {"fields": (GPU_TYPE, "gpus_count", "cores", "memory", "storage_domain", "is_virtual")}),
        ("Where it stands", {"fields": ("rack", "label")}),
        ("Core tuning", {"fields": ("tunes_cores",)}),
        ("Accounts", {"fields": ("single_account", "trusts_tenants")}),
        (
            "Its agent",
            {
                "fields": (
                    "address",
                    "agent_version",
                    "boot_id",
                    "registered_at",
                    "token_revoked_at",
                    "refused_messages",
                )
            },
        ),
        ("Health and figures", {"fields": ("findings_shown", "heartbeat_s", "live_shown")}),
    )
    readonly_fields = tuple(name for _, group in fieldsets for name in group["fields"])
    commands = (
        Command(
            "drain",
            "Drain",
            "No new job is placed there; what runs there ends by itself.",
            calls(operating.node_drain, "node"),
            lambda node: node.drained_at is None and node.dead_at is None,
            form=ReasonForm,
        ),
        Command(
            "describe",
            "Rack and label",
            "The overview and the cluster page group nodes by rack and label. Jobs over several nodes keep to one rack where "
            "they can. Wider levels go before it: hall 1/row 3/rack 12.",
            calls(operating.node_describe, "node"),
            lambda node: node is not None,
            form=DescribeForm,
        ),
        Command(
            "leave-cores",
            "Core tuning off",
            "Jobs that run there keep the cores that they have.",
            calls(operating.node_tuning, "node", allowed=False),
            lambda node: node is not None and node.tunes_cores,
        ),
        Command(
            "tune-cores",
            "Core tuning on",
            "Training jobs that run there are given the fewest cores that keep their GPUs busy.",
            calls(operating.node_tuning, "node", allowed=True),
            lambda node: node is not None and not node.tunes_cores,
        ),
        Command(
            "cordon-gpu",
            "Cordon a GPU",
            "No new job gets this GPU; what runs on it goes on.",
            calls(health.gpu_cordon, "node"),
            lambda node: node.gpus.present().exists(),
            form=GpuReasonForm,
        ),
        Command(
            "resume-gpu",
            "Resume a GPU",
            "Jobs get this GPU again. What its checks still find is set aside until it was gone and comes again.",
            calls(health.gpu_resume, "node"),
            lambda node: node.gpus.filter(cordoned_at__isnull=False).exists(),
            form=GpuForm,
        ),
        Command(
            "share-gpu",
            "Let jobs share a GPU",
            "Jobs that ask for a part of a GPU run on it beside each other, and no other job gets it. It must be idle.",
            calls(sharing.gpu_mode_set, "node", mode=Gpu.Mode.SHARED),
            lambda node: node.gpus.present().exclude(mode=Gpu.Mode.SHARED).exists(),
            form=GpuForm,
        ),
        Command(
            "own-gpu",
            "Hand a GPU out whole",
            "One job at a time gets this GPU again. It must be idle.",
            calls(sharing.gpu_mode_set, "node", mode=Gpu.Mode.EXCLUSIVE),
            lambda node: node.gpus.filter(mode=Gpu.Mode.SHARED).exists(),
            form=GpuForm,
        ),
        Command(
            "heartbeat",
            "Heartbeat",
            "So often its agent reads its GPUs. Below a second it sends means, percentiles and the last readings; "
            "`./berth bench telemetry` says what that costs.",
            calls(health.node_heartbeat_set, "node"),
            lambda node: node is not None,
            form=HeartbeatForm,
        ),
        Command(
            "resume",
            "Resume",
            "Jobs are placed there again as soon as its agent is in contact. What its checks still find is set aside "
            "until it was gone and comes again.",
            calls(operating.node_resume, "node"),
            lambda node: bool(node.drained_at or node.dead_at),
        ),
        Command(
            "declare-dead",
            "Declare dead",
            "You state that every process on this node has ended: it is switched off, or removed from the network for good. Its "
            "jobs are given up at once, and those that may be requeued run elsewhere. If they still ran, they would "
            "run twice.",
            calls(operating.node_declare_dead, "node"),
            lambda node: node.dead_at is None and not node.is_reachable,
            form=ReasonForm,
            is_destructive=True,
        ),
        Command(
            "revoke-token",
            "Revoke token",
            "Every further call of its agent is refused. The machine may join again with a new join token.",
            calls(operating.node_token_revoke, "node"),
            lambda node: node.token_revoked_at is None,
            is_destructive=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(gpu_count=Count("gpus", filter=Q(gpus__missing_since=None)))

    @admin.display(description="Health")
    def health_shown(self, obj: Node) -> str:
        return mark(obj.health)

    @admin.display(description="GPUs", ordering="gpu_count")
    def gpus_count(self, obj: Any) -> int:
        return obj.gpu_count

    @admin.display(description="Memory", ordering="memory_mib")
    def memory(self, obj: Node) -> str:
        return mib(obj.memory_mib)

    @admin.display(description="Last contact", ordering="last_contact_at")
    def contact(self, obj: Node) -> str:
        if obj.last_contact_at is None:
            return "never"
        return "now" if obj.is_reachable else ago(obj.last_contact_at)

    @admin.display(description="What its checks find")
    def findings_shown(self, obj: Node) -> str:
        return "; ".join(f"{each['subject']}: {each['detail']} {each['remedy']}" for each in obj.findings) or "nothing"

    @admin.display(description="Sample")
    def live_shown(self, obj: Node) -> str:
        return facts(obj.live)
