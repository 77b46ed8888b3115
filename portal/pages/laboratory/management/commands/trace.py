"""`./berth trace`: Berth's own history as a trace, and its cluster as a cluster file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.laboratory.command import LabCommand, Refused, database_check, file_write, outputs_check
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.cluster_text import cluster_text
from portal.pages.laboratory.sources.history import cluster_registered, history_rows
from scheduler.simulator.traces.own import NAMES

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable


class Command(LabCommand):
    help = "Write what this Berth has run as a trace, or its cluster as a cluster file, for ./berth simulate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        export = verbs.add_parser("export", help="write the jobs of all tenants as berth-jsonl (or berth-csv)")
        export.add_argument("out", type=Path, help="the file to write; its name ends with .jsonl or .csv")
        export.add_argument(
            "--days", type=float, default=7.0, help="the jobs that were submitted in the last so many days (default 7)"
        )
        cluster = verbs.add_parser("cluster", help="write the nodes, GPU types and tenants as YAML")
        cluster.add_argument("out", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        outputs_check({"OUT": options["out"]})
        try:
            database_check("history")
            text = getattr(self, options["verb"])(options)
        except SimulationError as error:
            raise Refused(error) from error
        file_write(options["out"], text)
        self.stderr.write(f"wrote {options['out']}")

    def cluster(self, options: dict[str, Any]) -> str:
        return cluster_text(cluster_registered())

    def export(self, options: dict[str, Any]) -> str:
        kinds = {".jsonl": as_json_lines, ".csv": as_csv}
        kind = kinds.get(options["out"].suffix)
        if kind is None:
            raise SimulationError("out", f"the name of {options['out']} ends with neither .jsonl nor .csv")
        return kind(history_rows(days=options["days"], now=timezone.now()))


def as_json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return ("yes" if value else "no") if isinstance(value, bool) else value
