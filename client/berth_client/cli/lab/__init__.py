"""`berth lab`: its verbs and their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth_client.cli.lab import verbs as lab
from berth_client.cli.options import count, number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from berth_client import Berth


LISTED = 50


def parsers_add(above: Any) -> None:
    words = "use the laboratory: simulate jobs under other policies, knobs or clusters"
    parser = above.add_parser("lab", help=words, description=f"{words[0].upper()}{words[1:]}.", allow_abbrev=False)
    parser.set_defaults(act=lab.listed, asks_portal=True, json=False, portal=None, state=None, most=LISTED)
    verbs = parser.add_subparsers(metavar="VERB")
    _run_parser(verbs)
    rows = _verb(verbs, "ls", lab.listed, "list the newest simulations", "list")
    rows.add_argument(
        "--state", metavar="S,S", help="only those in these states: QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED"
    )
    _listing(rows)
    shown = _verb(verbs, "show", lab.show, "show how far one is, or its figures")
    shown.add_argument("--csv", type=Path, metavar="OUT", help="write the report as CSV")
    _verb(verbs, "wait", lab.wait, "wait until one has ended; exit code 0 when it completed")
    _verb(verbs, "cancel", lab.cancel, "end one: at once while it waits, within seconds while it runs")
    _verb(verbs, "share", lab.share, "say who else sees one")
    _verb(verbs, "delete", lab.delete, "delete one that has ended")
    for verb in ("show", "wait", "cancel", "share", "delete"):
        verbs.choices[verb].add_argument("number", type=int)
    verbs.choices["share"].add_argument("shared_with", choices=["owner", "tenant", "operators"])
    _trace_parsers(verbs)


def _trace_parsers(verbs: Any) -> None:
    _listing(_verb(verbs, "traces", lab.traces, "list the newest traces"))
    sent = _verb(verbs, "upload", lab.upload, "keep a trace on the portal")
    sent.add_argument("file", type=Path)
    sent.add_argument(
        "--format", required=True, metavar="NAME", help="the format of the file; they are in docs/traces.md"
    )
    taken = _verb(verbs, "history", lab.history, "keep the cluster's last days as a trace")
    taken.add_argument("days", type=number)
    for kept in (sent, taken):
        kept.add_argument("--name", help="the trace's name")
        kept.add_argument("--tenant", metavar="T", help="the tenant that it is for; needed where you are in several")
    forgotten = _verb(verbs, "delete-trace", lab.delete_trace, "delete a trace and its simulations")
    forgotten.add_argument("number", type=int)


def _verb(verbs: Any, name: str, act: Callable[[Any, Berth], int], words: str, *also: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, aliases=also, help=words, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the portal's own answer")
    parser.add_argument("--portal", metavar="NAME", help="ask the portal of this login (`login --name`)")
    parser.set_defaults(act=act, asks_portal=True)
    return parser


def _listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--most", type=count, default=LISTED, metavar="N", help=f"how many rows at most (default {LISTED})"
    )


def _run_parser(verbs: Any) -> None:
    parser = _verb(verbs, "run", lab.run, "ask for a simulation")
    parser.add_argument("name")
    jobs = parser.add_mutually_exclusive_group(required=True)
    jobs.add_argument("--trace", metavar="N|FILE", help="a trace of the portal by number, or a file, which is uploaded")
    jobs.add_argument("--history", type=number, metavar="DAYS", help="the cluster's own jobs of these last days")
    jobs.add_argument("--generator", metavar="NAME", help="a drawn workload: hops-64, hops-512")
    parser.add_argument("--format", metavar="NAME", help="the format of the file; they are in docs/traces.md")
    parser.add_argument("--jobs", type=int, metavar="N", help="how many jobs are drawn")
    parser.add_argument(
        "--cluster",
        metavar="WHICH",
        help="the cluster: here (this one), own (the generator's), or a file as in examples/clusters/",
    )
    parser.add_argument("--policy", required=True, metavar="A,B,C", help="the policies; each replays the same jobs")
    parser.add_argument(
        "--knob",
        action="append",
        default=[],
        metavar="N=V",
        help="a knob of the scheduler; they are in docs/settings.md; may be given again",
    )
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--until", type=number, metavar="H", help="end the simulation after these virtual hours")
    parser.add_argument("--tenant", metavar="T", help="the tenant that it is for; needed where you are in several")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended, and print its figures")
