"""`berth lab`: the laboratory's simulations and traces, on the portal and by its own worker."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth_client.cli.lab.words import OPEN, percent, words_of
from berth_client.cli.tables import table
from berth_client.errors import AwayError, ClientError

if TYPE_CHECKING:
    from berth_client import Berth

POLL_S = 1.0


# ---- verbs -----------------------------------------------------------------------------------------------------------


def run(asked: Any, berth: Berth) -> int:
    body, kept = _order(asked), None
    if asked.history is not None:
        kept = _taken(asked, berth, name=None)["id"]
    elif asked.trace is not None and not asked.trace.isdecimal():
        kept = _uploaded(asked, berth)["id"]
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
        return _followed(asked, berth, made["id"])
    return _told(asked, made, f"simulation {made['id']}: {made['ahead']} before it; berth lab wait {made['id']}")


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
    columns = ("number", "state", "done", "name", "jobs", "cluster", "policies", "owner")
    cells = [
        (
            row["id"],
            row["state"],
            percent(row),
            row["name"],
            row["jobs"],
            row["cluster"],
            ",".join(row["policies"]),
            row["owner"],
        )
        for row in rows
    ]
    return _told(asked, rows, table(columns, cells) if rows else "no simulation yet; berth lab run asks for one")


def show(asked: Any, berth: Berth) -> int:
    found = berth.simulations_show(asked.number)
    if asked.csv:
        _write(asked.csv, berth.simulations_report(asked.number, format="csv"))
    return _told(asked, found, words_of(found))


def wait(asked: Any, berth: Berth) -> int:
    return _followed(asked, berth, asked.number)


def cancel(asked: Any, berth: Berth) -> int:
    found = berth.simulations_cancel(asked.number)
    return _told(asked, found, "it is cancelled" if found["state"] == "CANCELLED" else "it stops within seconds")


def share(asked: Any, berth: Berth) -> int:
    found = berth.simulations_share(asked.number, shared_with=asked.shared_with)
    return _told(asked, found, f"{found['name']} is shared with {found['shared_with']}")


def delete(asked: Any, berth: Berth) -> int:
    berth.simulations_delete(asked.number)
    return _told(asked, None, "deleted")


def traces(asked: Any, berth: Berth) -> int:
    rows = list(berth.each(berth.traces_list, most=asked.most))
    columns = ("number", "name", "format", "from", "jobs", "hours", "owner", "tenant")
    cells = [
        (
            row["id"],
            row["name"],
            row["format"],
            row["origin"],
            row["jobs"],
            row["span_s"] / 3600,
            row["owner"],
            row["tenant"],
        )
        for row in rows
    ]
    return _told(asked, rows, table(columns, cells) if rows else "no trace yet; berth lab upload keeps one")


def upload(asked: Any, berth: Berth) -> int:
    asked.trace = str(asked.file)
    return _trace_told(asked, _uploaded(asked, berth, name=asked.name))


def history(asked: Any, berth: Berth) -> int:
    asked.history = asked.days
    return _trace_told(asked, _taken(asked, berth, name=asked.name))


def delete_trace(asked: Any, berth: Berth) -> int:
    berth.traces_delete(asked.number)
    return _told(asked, None, "deleted")


# ---- what they share -------------------------------------------------------------------------------------------------


def _uploaded(asked: Any, berth: Berth, *, name: str | None = None) -> dict[str, Any]:
    path = Path(asked.trace)
    if not asked.format:
        raise ClientError(f"--trace {path}: say its --format (docs/traces.md names them).")
    return berth.traces_upload(_read(path), format=asked.format, name=name or path.name, tenant=asked.tenant)


def _taken(asked: Any, berth: Berth, *, name: str | None) -> dict[str, Any]:
    return berth.traces_history(days=asked.history, name=name, tenant=asked.tenant)


def _followed(asked: Any, berth: Berth, number: int) -> int:
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
    _told(asked, found, words_of(found))
    return 0 if found["state"] == "COMPLETED" else 1


def _trace_told(asked: Any, kept: dict[str, Any]) -> int:
    hours = kept["span_s"] / 3600
    return _told(asked, kept, f"trace {kept['id']}, {kept['name']}: {kept['jobs']} jobs in {hours:.1f} h")


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
