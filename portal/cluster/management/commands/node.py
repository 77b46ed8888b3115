"""`./berth manage node`: what the nodes' checks find, and an operator's cordons, resumes and heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.cluster import services
from portal.cluster.models import Node
from portal.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Command(BaseCommand):
    help = "List nodes with what their checks find; with a name and an option, change that node."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="one node; without it all that are not simply up are listed")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--drain", action="store_true", help="no new jobs there; needs --reason")
        what.add_argument("--resume", action="store_true", help="jobs again; sets aside what its checks still find")
        what.add_argument("--cordon-gpu", type=int, metavar="INDEX", help="no new job gets it; needs --reason")
        what.add_argument("--resume-gpu", type=int, metavar="INDEX", help="jobs get it again")
        what.add_argument("--heartbeat", type=float, metavar="S", help="how often its GPUs are read, 0.001 to 10 s")
        parser.add_argument("--reason", default="", help="shown to whoever finds it so")

    def handle(self, *, name: str | None, **options: Any) -> None:
        if name is None:
            for node in Node.objects.order_by("name"):
                if node.health != "up" or node.findings or node.outside or _closed(node):
                    self.stdout.write("\n".join(_lines(node)))
            return
        node = Node.objects.filter(name=name).first()
        if node is None:
            raise CommandError(f"There is no node {name}.")
        try:
            _change(node, options)
        except BerthError as error:
            raise CommandError(error.detail) from error
        node.refresh_from_db()
        self.stdout.write("\n".join(_lines(node)))


def _change(node: Node, options: dict[str, Any]) -> None:
    reason = options["reason"]
    if options["drain"]:
        services.node_drain(node=node, actor=None, reason=reason)
    elif options["resume"]:
        services.node_resume(node=node, actor=None)
    elif options["cordon_gpu"] is not None:
        services.gpu_cordon(node=node, index=options["cordon_gpu"], actor=None, reason=reason)
    elif options["resume_gpu"] is not None:
        services.gpu_resume(node=node, index=options["resume_gpu"], actor=None)
    elif options["heartbeat"] is not None:
        services.node_heartbeat_set(node=node, actor=None, heartbeat_s=options["heartbeat"])


def _closed(node: Node) -> bool:
    return any(gpu.closed_because for gpu in node.gpus.present())


def _lines(node: Node) -> Iterator[str]:
    drained = f": {node.drain_reason}" if node.drain_reason else ""
    yield f"{node.name}  {node.health}{drained}"
    for gpu in node.gpus.present():
        if gpu.closed_because:
            yield f"  GPU {gpu.index}  {gpu.closed_because} {gpu.cordon_remedy}".rstrip()
    for each in node.findings:
        yield f"  {each['subject']}  {each['check']} ({each['level']}): {each['detail']} {each['remedy']}".rstrip()
    for each in node.outside:
        yield f"  GPU {each['gpu']}  process {each['pid']} ({each['name']}) is not of Berth"
