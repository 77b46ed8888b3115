"""`berth lab`: the laboratory's simulations and traces, on the portal and by its own worker."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import most_add, number
from berth_client.cli.output import Columns, counted, format_rows, format_value, table
from berth_client.errors import AwayError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth_client import Berth

POLL_S = 1.0
MOST = 50
OPEN = ("QUEUED", "RUNNING")
FIGURES = {
    "mean_jct_h": "mean JCT, h",
    "p99_jct_h": "99 %, h",
    "makespan_h": "makespan, h",
    "mean_wait_h": "mean wait, h",
    "mean_lr": "mean LR",
    "max_lr": "max LR",
    "max_ftf": "max FTF",
    "gpu_active_rate": "active",
    "jobs_unfinished": "unfinished",
}


def percent(row: dict[str, Any]) -> str:
    return f"{100 * sum(row['progress'].values()) / max(1, len(row['policies'])):.0f} %"


SIMULATIONS = Columns(
    short=(
        ("number", lambda row: row["id"]),
        ("state", lambda row: row["state"]),
        ("done", percent),
        ("name", lambda row: row["name"]),
        ("jobs", lambda row: row["jobs"]),
        ("cluster", lambda row: row["cluster"]),
        ("policies", lambda row: ",".join(row["policies"])),
        ("owner", lambda row: row["owner"]),
    ),
    wide=(),
    name=lambda row: str(row["id"]),
)
TRACES = Columns(
    short=(
        ("number", lambda row: row["id"]),
        ("name", lambda row: row["name"]),
        ("format", lambda row: row["format"]),
        ("from", lambda row: row["origin"]),
        ("jobs", lambda row: row["jobs"]),
        ("hours", lambda row: row["span_s"] / 3600),
        ("owner", lambda row: row["owner"]),
        ("tenant", lambda row: row["tenant"]),
    ),
    wide=(),
    name=lambda row: str(row["id"]),
)


def listed_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(output="table", parsable=False, state=None, most=MOST, act_on="ls")
    verbs = parser.add_subparsers(metavar="VERB")
    _run_parser(verbs)
    rows = _verb(verbs, "ls", listed, "list the newest simulations", "list")
    rows.add_argument(
        "--state", metavar="S,S", help="only those in these states: QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED"
    )
    most_add(rows, MOST)
    shown = _verb(verbs, "show", show, "show how far one is, or its figures")
    shown.add_argument("--csv", type=Path, metavar="OUT", help="write the report as CSV")
    _verb(verbs, "wait", wait, "wait until one has ended; exit code 0 when it completed")
    _verb(verbs, "cancel", cancel, "end one: at once while it waits, within seconds while it runs")
    _verb(verbs, "share", share, "say who else sees one")
    _verb(verbs, "delete", delete, "delete one that has ended")
    for verb in ("show", "wait", "cancel", "share", "delete"):
        verbs.choices[verb].add_argument("number", type=int)
    verbs.choices["share"].add_argument("shared_with", choices=["owner", "tenant", "operators"])
    _trace_parsers(verbs)


def _trace_parsers(verbs: Any) -> None:
    most_add(_verb(verbs, "traces", traces, "list the newest traces"), MOST)
    sent = _verb(verbs, "upload", upload, "keep a trace on the portal")
    sent.add_argument("file", type=Path)
    sent.add_argument(
        "--format", required=True, metavar="NAME", help="the format of the file; they are in docs/traces.md"
    )
    taken = _verb(verbs, "history", history, "keep the cluster's last days as a trace")
    taken.add_argument("days", type=number)
    for kept in (sent, taken):
        kept.add_argument("--name", help="the trace's name")
        kept.add_argument("--tenant", metavar="T", help="the tenant that it is for; needed where you are in several")
    forgotten = _verb(verbs, "delete-trace", delete_trace, "delete a trace and its simulations")
    forgotten.add_argument("number", type=int)


def _verb(verbs: Any, name: str, act: Callable[[Any, Berth], int], words: str, *also: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, aliases=also, help=words, allow_abbrev=False)
    words = "print the portal's own answer"
    parser.add_argument("--json", dest="output", action="store_const", const="json", default="table", help=words)
    parser.add_argument(
        "--portal", metavar="NAME", default=argparse.SUPPRESS, help="ask the portal of this login (`login --name`)"
    )
    parser.set_defaults(act=act, act_on=name)
    return parser


def _run_parser(verbs: Any) -> None:
    parser = _verb(verbs, "run", run, "ask for a simulation")
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


def run(asked: Any, berth: Berth) -> int:
    body, kept = _order(asked), None
    if asked.history is not None:
        kept = _take_history(asked, berth, name=None)["id"]
    elif asked.trace is not None and not asked.trace.isdecimal():
        kept = _upload(asked, berth)["id"]
    elif asked.trace is not None:
        body["trace"] = int(asked.trace)
    try:
        made = berth.simulations_ask(body | ({"trace": kept} if kept else {}))
    except AwayError:
        raise  # it may have been made
    except ClientError:
        if kept:
            berth.traces_delete(kept)
        raise
    if asked.wait:
        return _follow(asked, berth, made["id"])
    return _print(asked, made, f"simulation {made['id']}: {made['ahead']} before it; berth lab wait {made['id']}")


def _order(asked: Any) -> dict[str, Any]:
    """Return the order in REST's form. The portal decides whether it can be simulated."""
    body: dict[str, Any] = {
        "name": asked.name,
        "tenant": asked.tenant,
        "generator": asked.generator,
        "jobs": asked.jobs,
        "policies": asked.policy.split(","),
        "knobs": dict(map(_knob, asked.knob)),
        "seed": asked.seed,
        "until_h": asked.until,
    }
    if asked.cluster in {None, "here", "own"}:
        body["cluster"] = asked.cluster
    else:
        body |= {"cluster": "described", "description": _read(Path(asked.cluster)).decode(errors="replace")}
    return {name: value for name, value in body.items() if value is not None}


def _knob(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ClientError(f"--knob {text}: write name=value.")
    try:
        return name, int(value)
    except ValueError:
        pass
    try:
        return name, float(value)
    except ValueError:
        return name, value or None


def listed(asked: Any, berth: Berth) -> int:
    rows = list(berth.each(berth.simulations_list, state=asked.state, most=asked.most))
    sys.stdout.write(format_rows(asked, rows, SIMULATIONS, empty="no simulation yet; berth lab run asks for one"))
    return 0


def show(asked: Any, berth: Berth) -> int:
    found = berth.simulations_show(asked.number)
    if asked.csv:
        _write(asked.csv, berth.simulations_report(asked.number, format="csv"))
    return _print(asked, found, format_simulation(found))


def wait(asked: Any, berth: Berth) -> int:
    return _follow(asked, berth, asked.number)


def cancel(asked: Any, berth: Berth) -> int:
    found = berth.simulations_cancel(asked.number)
    return _print(asked, found, "it is cancelled" if found["state"] == "CANCELLED" else "it stops within seconds")


def share(asked: Any, berth: Berth) -> int:
    found = berth.simulations_share(asked.number, shared_with=asked.shared_with)
    return _print(asked, found, f"{found['name']} is shared with {found['shared_with']}")


def delete(asked: Any, berth: Berth) -> int:
    berth.simulations_delete(asked.number)
    return _print(asked, None, "deleted")


def traces(asked: Any, berth: Berth) -> int:
    rows = list(berth.each(berth.traces_list, most=asked.most))
    sys.stdout.write(format_rows(asked, rows, TRACES, empty="no trace yet; berth lab upload keeps one"))
    return 0


def upload(asked: Any, berth: Berth) -> int:
    asked.trace = str(asked.file)
    return _print_trace(asked, _upload(asked, berth, name=asked.name))


def history(asked: Any, berth: Berth) -> int:
    asked.history = asked.days
    return _print_trace(asked, _take_history(asked, berth, name=asked.name))


def delete_trace(asked: Any, berth: Berth) -> int:
    berth.traces_delete(asked.number)
    return _print(asked, None, "deleted")


def _upload(asked: Any, berth: Berth, *, name: str | None = None) -> dict[str, Any]:
    path = Path(asked.trace)
    if not asked.format:
        raise ClientError(f"--trace {path}: say its --format (docs/traces.md names them).")
    return berth.traces_upload(_read(path), format=asked.format, name=name or path.name, tenant=asked.tenant)


def _take_history(asked: Any, berth: Berth, *, name: str | None) -> dict[str, Any]:
    return berth.traces_history(days=asked.history, name=name, tenant=asked.tenant)


def _follow(asked: Any, berth: Berth, number: int) -> int:
    """Ask until it has ended. On a terminal a line shows the progress. While the portal is away, keep asking."""
    on_screen, away = sys.stderr.isatty(), 0
    while True:
        try:
            found, away = berth.simulations_show(number), 0
        except AwayError:
            away += 1
            if away > 60:
                raise
            time.sleep(POLL_S)
            continue
        if found["state"] not in OPEN:
            break
        if on_screen:
            where = f"{found['ahead']} before it" if found["state"] == "QUEUED" else f"{percent(found)} done"
            print(f"  simulation {number}: {where}".ljust(60), end="\r", file=sys.stderr, flush=True)
        time.sleep(POLL_S)
    if on_screen:
        print(" " * 60, end="\r", file=sys.stderr)
    _print(asked, found, format_simulation(found))
    return 0 if found["state"] == "COMPLETED" else 1


def _print_trace(asked: Any, kept: dict[str, Any]) -> int:
    hours = kept["span_s"] / 3600
    return _print(asked, kept, f"trace {kept['id']}, {kept['name']}: {kept['jobs']} jobs in {hours:.1f} h")


def _print(asked: Any, answer: Any, words: str) -> int:
    sys.stdout.write(format_value(asked, answer) if asked.output == "json" else f"{words}\n")
    return 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ClientError(f"{path} cannot be written: {error.strerror}.") from None


def format_simulation(found: dict[str, Any]) -> str:
    """Return one simulation as text: its order, its state, its figures."""
    knobs = ", ".join(f"{name} = {value}" for name, value in found["knobs"].items()) or "all at their default"
    facts = [
        ("simulation", f"{found['id']}, {found['name']}"),
        ("state", f"{found['state']}" + (f", {percent(found)} done" if found["state"] in OPEN else "")),
        ("jobs", f"{found['jobs']} of {found['generator'] or 'trace ' + str(found['trace'])}, seed {found['seed']}"),
        ("cluster", f"{found['cluster']}: {counted(found['nodes'], 'node')}, {counted(found['gpus'], 'GPU')}"),
        ("knobs", knobs),
    ]
    if found["state"] == "QUEUED":
        facts.append(("ahead", str(found["ahead"])))
    if found["error"]:
        facts.append(("error", found["error"]))
    lines = [f"{name:<12}{words}" for name, words in facts]
    if not found["figures"]:
        return "\n".join(lines)
    rows = [[policy, *(own.get(name) for name in FIGURES)] for policy, own in found["figures"].items()]
    return "\n".join([*lines, "", table(("policy", *FIGURES.values()), rows)])
