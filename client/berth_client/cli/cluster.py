"""Verbs on nodes: nodes, drain, resume."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import count, live_add, most_add, output_add
from berth_client.cli.output import Columns, cell, facts, format_one, format_page, memory, print_again, table, when

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.shapes import NodeDetail


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.0f} %"


COLUMNS = Columns(
    short=(
        ("node", lambda node: node["name"]),
        ("health", lambda node: node["health"]),
        ("type", lambda node: node["gpu_type"]),
        ("gpus", lambda node: f"{node['gpus_allocated']}/{node['gpus']}"),
        ("cores", lambda node: f"{node['cores_allocated']}/{node['cores']}"),
        ("memory asked for", lambda node: f"{_asked(node['memory_allocated_mib'])} of {memory(node['memory_mib'])}"),
        ("note", lambda node: node["drain_reason"]),
    ),
    wide=(
        ("gpus idle", lambda node: node.get("gpus_idle")),
        ("for sharing", lambda node: node.get("gpus_for_sharing")),
        ("gpus active", lambda node: _rate(node["gpu_active_rate"])),
        ("cores active", lambda node: _rate(node["cpu_active_rate"])),
        ("disk free", lambda node: memory(node["disk_free_mib"])),
        ("last contact", lambda node: when(node["last_contact_at"])),
        ("agent", lambda node: node["agent_version"]),
    ),
    name=lambda node: str(node["name"]),
)


def nodes_options(parser: argparse.ArgumentParser) -> None:
    live_add(parser, "nodes", "name", metavar="NODE", nargs="?", help="show this one")
    parser.add_argument("--gpu-type", metavar="TYPE", help="only nodes with GPUs of this type")
    parser.add_argument("--hours", type=count, metavar="H", help="hours that the active rates look back (1)")
    most_add(parser)
    output_add(parser, watch=True)


def resume_options(parser: argparse.ArgumentParser) -> None:
    live_add(parser, "nodes", "name", metavar="NODE")
    parser.add_argument("--gpu", type=int, metavar="INDEX", help="only this GPU of it")
    output_add(parser)


def drain_options(parser: argparse.ArgumentParser) -> None:
    resume_options(parser)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; people who meet it later will read it")


def nodes(asked: Any, berth: Berth) -> int:
    def make() -> str:
        if asked.name:
            return _format_node(asked, berth.nodes_show(asked.name, hours=asked.hours))
        empty, filters = "no node yet; `./berth node` on a machine makes it one", {"gpu_type": asked.gpu_type}
        return format_page(asked, berth, berth.nodes_list, columns=COLUMNS, empty=empty, hours=asked.hours, **filters)

    return print_again(asked, make)


def drain(asked: Any, berth: Berth) -> int:
    if asked.gpu is None:
        found = berth.nodes_drain(asked.name, reason=asked.reason)
    else:
        found = berth.gpus_cordon(asked.name, asked.gpu, reason=asked.reason)
    return _print_change(asked, found, "gets no new job")


def resume(asked: Any, berth: Berth) -> int:
    found = berth.nodes_resume(asked.name) if asked.gpu is None else berth.gpus_resume(asked.name, asked.gpu)
    return _print_change(asked, found, "gets jobs again")


def _print_change(asked: Any, node: NodeDetail, words: str) -> int:
    if asked.output == "table" and not asked.parsable:
        which = node["name"] if asked.gpu is None else f"GPU {asked.gpu} of {node['name']}"
        running = f"; {len(node['running'])} parts of jobs run on it" if node["running"] else ""
        print(f"{which} {words}{running}")
    else:
        sys.stdout.write(_format_node(asked, node))
    return 0


def _format_node(asked: Any, node: NodeDetail) -> str:
    if (plain := format_one(asked, node, [node], COLUMNS)) is not None:
        return plain
    text = facts([(head, find(node)) for head, find in (*COLUMNS.short, *COLUMNS.wide)])
    findings = "".join(
        cell(f"{each['level']}  {each['subject']}: {each['detail']} {each['remedy']}") + "\n"
        for each in node["findings"]
    )
    cards = [
        (each["index"], each["gpu_type"], _holder(each), memory(each["memory_mib"]), each["cordon_reason"])
        for each in node["gpu_list"]
    ]
    gpus = table(("gpu", "type", "held by", "memory", "cordoned"), cards) + "\n" if cards else ""
    cut = any(each.get("profile") for each in node["gpu_list"])  # a portal of an older version does not say
    note = "An instance of a GPU (MIG) takes jobs of one GPU; name its type to ask for one.\n" if cut else ""
    return "\n".join(filter(None, (text, findings, gpus, note)))


def _asked(mib: int) -> str:
    return str(memory(mib)) if mib else "none"


def _holder(gpu: dict[str, Any]) -> str | None:
    return f"job {gpu['job']}" if gpu["job"] else "another tenant" if gpu["allocated"] else None
