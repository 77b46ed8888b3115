"""`berth artefacts` and `berth cp`: list, fetch and remove what a job wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth_client.cli import complain
from berth_client.cli.options import act_add, live_add, most_add, output_add
from berth_client.cli.output import Columns, format_page, memory, printable, when
from berth_client.errors import AwayError, ClientError, RefusedError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.shapes import Artefact

MIB = 2**20


def _state(row: Artefact) -> str:
    words = row["state"].replace("_", " ")
    return f"{words}: {row['reason']}" if row["reason"] else words


COLUMNS = Columns(
    short=(
        ("path", lambda row: row["path"]),
        ("size", lambda row: None if row["size"] is None else memory(row["size"] / MIB)),
        ("state", _state),
        ("written", lambda row: when(row["modified_at"])),
    ),
    wide=(("attempt", lambda row: row["attempt"]), ("sha256", lambda row: row["sha256"])),
    name=lambda row: str(row["path"]),
)


def artefacts_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "List, fetch or remove what a job wrote to $BERTH_ARTEFACTS, while it runs and after."
    act_add(parser, ACTS, needed=True)
    live_add(parser, "jobs", "number", metavar="JOB", help="the job's number")
    parser.add_argument(
        "path", metavar="PATH", nargs="?", default="", help="only this file, or the files in this folder"
    )
    parser.add_argument("--to", metavar="DIR", default=".", help="with get: the folder to write to (here)")
    parser.add_argument("--all", action="store_true", help="with rm: all that the job wrote")
    most_add(parser, 1000)
    output_add(parser)


def cp_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="JOB:PATH", help="the job's number and the file's path")
    parser.add_argument("target", metavar="TO", help="a file, or a folder that exists")


def artefacts(asked: Any, berth: Berth) -> int:
    return ACTS[asked.act_on](asked, berth)


def _listed(asked: Any, berth: Berth) -> int:
    empty, number = "nothing yet; files in $BERTH_ARTEFACTS appear within seconds", asked.number
    under = asked.path.strip("/") or None
    sys.stdout.write(format_page(asked, berth, berth.jobs_artefacts, number, columns=COLUMNS, empty=empty, under=under))
    found = berth.jobs_artefacts(number, page_size=1)
    for note in found["notes"]:
        print(f"berth: not kept: {note['path']}: {note['why']}", file=sys.stderr)
    if found["notes_more"]:
        print(f"berth: not kept: {found['notes_more']} more", file=sys.stderr)
    return 0


def _get(asked: Any, berth: Berth) -> int:
    """Fetch every kept file at or below the path; tell of those that are not kept, or cannot lie here."""
    path, missing, done = asked.path.strip("/"), 0, dict[tuple[int, int], str]()
    for row in berth.each(berth.jobs_artefacts, asked.number):
        if path and row["path"] != path and not row["path"].startswith(path + "/"):
            continue
        try:
            target = _fetch(asked, berth, row, done)
        except (AwayError, RefusedError):
            raise
        except ClientError as error:
            complain(f"{row['path']}: {error}")
            missing += 1
        else:
            print(printable(row["path"]))
            done[_identity(target)] = row["path"]
    if not done and not missing:
        raise ClientError(f"job {asked.number} has written no {path or 'artefacts'}.")
    return 1 if missing else 0


def _fetch(asked: Any, berth: Berth, row: Artefact, done: dict[tuple[int, int], str]) -> Path:
    """Fetch one file and return where it lies; not over one that was fetched just now."""
    from berth_client.downloads import artefact_save, local_path

    if row["state"] != "kept":
        raise ClientError(_state(row))
    target = local_path(Path(asked.to), row["path"])
    if (other := done.get(_identity(target))) is not None:
        raise ClientError(f"here it would be the same file as {other}")
    artefact_save(berth, asked.number, row, target)
    return target


def _identity(path: Path) -> tuple[int, int]:
    """Return which file it is: where small and large letters are one, two names may be of one file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return 0, 0
    return found.st_dev, found.st_ino


def _remove(asked: Any, berth: Berth) -> int:
    if bool(asked.path) == asked.all:
        raise ClientError("name a PATH to remove, or say --all.")
    removed = (
        berth.jobs_artefacts_remove(asked.number) if asked.all else berth.jobs_artefact_remove(asked.number, asked.path)
    )
    print(f"job {asked.number}: {removed} removed")
    return 0


def cp(asked: Any, berth: Berth) -> int:
    from berth_client.downloads import artefact_save, local_path

    number, colon, path = asked.source.partition(":")
    if not colon or not number or not path:
        raise ClientError(f"{asked.source!r} names no file of a job; write it like 41:model/best.pt.")
    path = path.strip("/")
    row = next((each for each in berth.each(berth.jobs_artefacts, number) if each["path"] == path), None)
    if row is None:
        raise ClientError(f"job {number} has written no {path}; `berth artefacts ls {number}` lists what it has.")
    if row["state"] != "kept":
        raise ClientError(f"{path} cannot be fetched: {_state(row)}.")
    target = Path(asked.target)
    artefact_save(berth, number, row, local_path(target, path.rpartition("/")[2]) if target.is_dir() else target)
    return 0


ACTS = {"ls": _listed, "get": _get, "rm": _remove}
