"""`./berth manage node`: the findings of nodes' checks, and an operator's cordons, resumes and heartbeats.

A refusal is one line with exit code 2, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.cluster.models import Node
from portal.cluster.services import health, operating
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED = 2


class Command(BaseCommand):
    help = "List nodes with what their checks find; with a name and an option, change that node."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="one node; without it all that are not simply up are listed")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--drain", action="store_true", help="give the node no new jobs; needs --reason")
        what.add_argument(
            "--resume", action="store_true", help="give it jobs again; what its checks still find is set aside"
        )
        what.add_argument("--cordon-gpu", type=int, metavar="INDEX", help="give this GPU to no new job; needs --reason")
        what.add_argument("--resume-gpu", type=int, metavar="INDEX", help="give this GPU to jobs again")
        what.add_argument("--heartbeat", type=float, metavar="S", help="how often its GPUs are read, 0.001 to 10 s")
        parser.add_argument("--reason", default="", help="why; shown to all who find the node or GPU closed")

    def handle(self, *, name: str | None, **options: Any) -> None:
        _check(name, options)
        if name is None:
            nodes = list(Node.objects.listed().order_by("name"))
            unwell = [
                node
                for node in nodes
                if node.health != "up"
                or node.findings
                or node.outside
                or any(gpu.closed_because for gpu in node.gpus.present())
            ]
            for node in unwell:
                self.stdout.write("\n".join(_lines(node)))
            if not unwell:
                self.stdout.write(f"Nodes: {len(nodes)}. All are up, and nothing is closed or found.")
            return
        node = Node.objects.filter(name=name).first()
        if node is None:
            raise CommandError(f"There is no node {name}; the cluster page lists them.", returncode=REFUSED)
        try:
            _change(node, options)
        except BerthError as error:
            raise CommandError(error.detail, returncode=REFUSED) from error
        node.refresh_from_db()
        self.stdout.write("\n".join(_lines(node)))


def _check(name: str | None, options: dict[str, Any]) -> None:
    """Refuse what would be passed over without a word: a change of no node, a reason for no change."""
    changes = [options[each] for each in ("cordon_gpu", "resume_gpu", "heartbeat")]
    asked = options["drain"] or options["resume"] or any(value is not None for value in changes)
    if name is None and (asked or options["reason"]):
        raise CommandError("Say which node: `./berth manage node NAME ...`.", returncode=REFUSED)
    if options["reason"] and not (options["drain"] or options["cordon_gpu"] is not None):
        raise CommandError("--reason belongs to --drain or --cordon-gpu.", returncode=REFUSED)


def _change(node: Node, options: dict[str, Any]) -> None:
    reason = options["reason"]
    index = options["cordon_gpu"] if options["cordon_gpu"] is not None else options["resume_gpu"]
    there = sorted(gpu.index for gpu in node.gpus.present())
    if index is not None and index not in there:
        known = f"it has {', '.join(map(str, there))}" if there else "it has none"
        raise CommandError(f"{node.name} has no GPU {index}; {known}.", returncode=REFUSED)
    if options["drain"]:
        operating.node_drain(node=node, actor=None, reason=reason)
    elif options["resume"]:
        operating.node_resume(node=node, actor=None)
    elif options["cordon_gpu"] is not None:
        health.gpu_cordon(node=node, index=options["cordon_gpu"], actor=None, reason=reason)
    elif options["resume_gpu"] is not None:
        health.gpu_resume(node=node, index=options["resume_gpu"], actor=None)
    elif options["heartbeat"] is not None:
        health.node_heartbeat_set(node=node, actor=None, heartbeat_s=options["heartbeat"])


def _lines(node: Node) -> Iterator[str]:
    drained = f": {node.drain_reason}" if node.drain_reason else ""
    yield f"{node.name}  {node.health}{drained}  (heartbeat {node.heartbeat_s:g} s)"
    for gpu in node.gpus.present():
        if gpu.closed_because:
            yield f"  GPU {gpu.index}  {gpu.closed_because} {gpu.cordon_remedy}".rstrip()
    for each in node.findings:
        yield f"  {each['subject']}  {each['check']} ({each['level']}): {each['detail']} {each['remedy']}".rstrip()
    for each in node.outside:
        yield f"  GPU {each['gpu']}  process {each['pid']} ({each['name']}) is not of Berth"
