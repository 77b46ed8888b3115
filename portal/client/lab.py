"""`./berth lab`: the laboratory's simulations and traces, on the portal and by its own worker."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .rest import AwayError, ClientError, Portal
from .tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN = ("QUEUED", "RUNNING")
POLL_S = 1.0
TRIES = 3
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


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    return asked.act(asked, Portal.from_environment())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./berth lab",
        description="Simulate on a Berth; BERTH_URL and BERTH_TOKEN say on which.",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _run_parser(verbs)
    rows = _verb(verbs, "list", listed, "the newest simulations")
    rows.add_argument("--state", metavar="S,S", help="QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED")
    _listing(rows)
    shown = _verb(verbs, "show", show, "how far one is, or its figures")
    shown.add_argument("--csv", type=Path, metavar="OUT", help="write the report as CSV")
    _verb(verbs, "wait", wait, "until one has ended; exit code 0 when it completed")
    _verb(verbs, "cancel", cancel, "at once while it waits, within seconds while it runs")
    _verb(verbs, "share", share, "say who else sees one")
    _verb(verbs, "delete", delete, "one that has ended")
    for verb in ("show", "wait", "cancel", "share", "delete"):
        verbs.choices[verb].add_argument("number", type=int)
    verbs.choices["share"].add_argument("shared_with", choices=["owner", "tenant", "operators"])
    _listing(_verb(verbs, "traces", traces, "the newest traces"))
    sent = _verb(verbs, "upload", upload, "keep a trace on the portal")
    sent.add_argument("file", type=Path)
    sent.add_argument("--format", required=True, metavar="NAME", help="docs/traces.md")
    taken = _verb(verbs, "history", history, "keep the cluster's last days as a trace")
    taken.add_argument("days", type=_number)
    for verb in (sent, taken):
        verb.add_argument("--name", help="the trace's name")
        verb.add_argument("--tenant", metavar="T", help="for which; needed where you have several")
    forgotten = _verb(verbs, "delete-trace", delete_trace, "a trace, and what was simulated on it")
    forgotten.add_argument("number", type=int)
    return parser


def _verb(verbs: Any, name: str, act: Callable[[Any, Portal], int], words: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=words, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the portal's own answer")
    parser.set_defaults(act=act)
    return parser


def _listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--most", type=_count, default=50, metavar="N", help="rows at most (50)")


def _count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _number(text: str) -> float:
    """A finite number: JSON has no other."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _run_parser(verbs: Any) -> None:
    parser = _verb(verbs, "run", run, "ask for a simulation")
    parser.add_argument("name")
    jobs = parser.add_mutually_exclusive_group(required=True)
    jobs.add_argument("--trace", metavar="N|FILE", help="a trace of the portal by number, or a file, which is uploaded")
    jobs.add_argument("--history", type=_number, metavar="DAYS", help="the cluster's last days")
    jobs.add_argument("--generator", metavar="NAME", help="a drawn workload: hops-64, hops-512")
    parser.add_argument("--format", metavar="NAME", help="of the file; docs/traces.md")
    parser.add_argument("--jobs", type=int, metavar="N", help="how many are drawn")
    parser.add_argument(
        "--cluster", metavar="WHICH", help="here, own (the generator's), or a file as in examples/clusters/"
    )
    parser.add_argument("--policy", required=True, metavar="A,B,C", help="each replays the same jobs")
    parser.add_argument("--knob", action="append", default=[], metavar="N=V", help="docs/settings.md")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--until", type=_number, metavar="H", help="cut off after so many hours")
    parser.add_argument("--tenant", metavar="T", help="for which; needed where you have several")
    parser.add_argument("--wait", action="store_true", help="until it has ended; print its figures")


# ---- verbs -----------------------------------------------------------------------------------------------------------


def run(asked: Any, portal: Portal) -> int:
    body, kept = _order(asked), None
    if asked.history is not None:
        kept = _taken(asked, portal, name=None)["id"]
    elif asked.trace is not None and not asked.trace.isdecimal():
        kept = _uploaded(asked, portal)["id"]
    elif asked.trace is not None:
        body["trace"] = int(asked.trace)
    try:
        made = _sent(portal, body | ({"trace": kept} if kept else {}))
    except AwayError:
        raise  # it may have been made
    except ClientError:
        if kept:
            portal.ask("DELETE", f"/simulations/traces/{kept}")
        raise
    if asked.wait:
        return _followed(asked, portal, made["id"])
    return _told(asked, made, f"simulation {made['id']}: {made['ahead']} before it; ./berth lab wait {made['id']}")


def _order(asked: Any) -> dict[str, Any]:
    """What was typed, as REST wants it; whether it can be simulated is the portal's to say."""
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


def _sent(portal: Portal, body: dict[str, Any]) -> dict[str, Any]:
    """Under one key, so that sending it again where no answer came makes no second one."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    for left in reversed(range(TRIES)):
        try:
            return portal.ask("POST", "/simulations", body=body, headers=key)
        except AwayError:
            if not left:
                raise
            time.sleep(POLL_S)
    raise AssertionError


def listed(asked: Any, portal: Portal) -> int:
    rows = list(portal.pages("/simulations", query={"state": asked.state}, most=asked.most))
    columns = ("number", "state", "done", "name", "jobs", "cluster", "policies", "owner")
    cells = [
        (row["id"], row["state"], _percent(row), row["name"], row["jobs"], row["cluster"], ",".join(row["policies"]),
         row["owner"])
        for row in rows
    ]  # fmt: skip
    return _told(asked, rows, table(columns, cells) if rows else "no simulation yet; ./berth lab run asks for one")


def show(asked: Any, portal: Portal) -> int:
    found = portal.ask("GET", f"/simulations/{asked.number}")
    if asked.csv:
        _write(asked.csv, portal.call("GET", f"/simulations/{asked.number}/report", query={"format": "csv"}))
    return _told(asked, found, _words(found))


def wait(asked: Any, portal: Portal) -> int:
    return _followed(asked, portal, asked.number)


def cancel(asked: Any, portal: Portal) -> int:
    found = portal.ask("POST", f"/simulations/{asked.number}/cancel")
    return _told(asked, found, "it is cancelled" if found["state"] == "CANCELLED" else "it stops within seconds")


def share(asked: Any, portal: Portal) -> int:
    found = portal.ask("POST", f"/simulations/{asked.number}/share", body={"shared_with": asked.shared_with})
    return _told(asked, found, f"{found['name']} is shared with {found['shared_with']}")


def delete(asked: Any, portal: Portal) -> int:
    portal.ask("DELETE", f"/simulations/{asked.number}")
    return _told(asked, None, "deleted")


def traces(asked: Any, portal: Portal) -> int:
    rows = list(portal.pages("/simulations/traces", query={}, most=asked.most))
    columns = ("number", "name", "format", "from", "jobs", "hours", "owner", "tenant")
    cells = [
        (row["id"], row["name"], row["format"], row["origin"], row["jobs"], row["span_s"] / 3600, row["owner"], row["tenant"])
        for row in rows
    ]  # fmt: skip
    return _told(asked, rows, table(columns, cells) if rows else "no trace yet; ./berth lab upload keeps one")


def upload(asked: Any, portal: Portal) -> int:
    asked.trace = str(asked.file)
    return _trace_told(asked, _uploaded(asked, portal, name=asked.name))


def history(asked: Any, portal: Portal) -> int:
    asked.history = asked.days
    return _trace_told(asked, _taken(asked, portal, name=asked.name))


def delete_trace(asked: Any, portal: Portal) -> int:
    portal.ask("DELETE", f"/simulations/traces/{asked.number}")
    return _told(asked, None, "deleted")


# ---- what they share -------------------------------------------------------------------------------------------------


def _uploaded(asked: Any, portal: Portal, *, name: str | None = None) -> dict[str, Any]:
    path = Path(asked.trace)
    if not asked.format:
        raise ClientError(f"--trace {path}: say its --format (docs/traces.md names them).")
    query = {"format": asked.format, "name": name or path.name, "tenant": asked.tenant}
    return portal.ask("POST", "/simulations/traces", query=query, content=_read(path))


def _taken(asked: Any, portal: Portal, *, name: str | None) -> dict[str, Any]:
    body = {"days": asked.history, "name": name, "tenant": asked.tenant}
    return portal.ask("POST", "/simulations/traces/history", body=body)


def _followed(asked: Any, portal: Portal, number: int) -> int:
    """Look until it has ended; on a terminal a line says how far it is. An outage of the portal is waited out."""
    on_screen, away = sys.stderr.isatty(), 0
    while True:
        try:
            found, away = portal.ask("GET", f"/simulations/{number}"), 0
        except AwayError:
            away += 1
            if away > 60:
                raise
            time.sleep(POLL_S)
            continue
        if found["state"] not in OPEN:
            break
        if on_screen:
            where = f"{found['ahead']} before it" if found["state"] == "QUEUED" else f"{_percent(found)} done"
            print(f"  simulation {number}: {where}".ljust(60), end="\r", file=sys.stderr, flush=True)
        time.sleep(POLL_S)
    if on_screen:
        print(" " * 60, end="\r", file=sys.stderr)
    _told(asked, found, _words(found))
    return 0 if found["state"] == "COMPLETED" else 1


def _words(found: dict[str, Any]) -> str:
    """One simulation as text: what was asked, how it stands, the figures."""
    knobs = ", ".join(f"{name} = {value}" for name, value in found["knobs"].items()) or "all at their default"
    facts = [
        ("simulation", f"{found['id']}, {found['name']}"),
        ("state", f"{found['state']}" + (f", {_percent(found)} done" if found["state"] in OPEN else "")),
        ("jobs", f"{found['jobs']} of {found['generator'] or 'trace ' + str(found['trace'])}, seed {found['seed']}"),
        ("cluster", f"{found['cluster']}: {found['nodes']} nodes, {found['gpus']} GPUs"),
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


def _trace_told(asked: Any, kept: dict[str, Any]) -> int:
    hours = kept["span_s"] / 3600
    return _told(asked, kept, f"trace {kept['id']}, {kept['name']}: {kept['jobs']} jobs in {hours:.1f} h")


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * sum(row['progress'].values()) / max(1, len(row['policies'])):.0f} %"


def _told(asked: Any, answer: Any, words: str) -> int:
    print(json.dumps(answer, indent=1) if asked.json else words)
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
