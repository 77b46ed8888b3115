"""`./berth simulate`: replay a trace under several policies and compare them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.simulations import told
from portal.simulations.bars import progress_bars
from portal.simulations.clusters import cluster_read
from portal.simulations.command import file_write
from portal.simulations.errors import SimulationError
from portal.simulations.history import cluster_now, history_rows, knobs_in_force
from portal.simulations.services import Request, knobs_parse, simulation_run
from portal.simulations.traces import TraceFile
from scheduler.policy import POLICIES
from scheduler.simulator.rivals import RIVALS
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import TraceError

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from portal.simulations.clusters import ClusterFile

EVERY = ", ".join([*POLICIES, *RIVALS])


class Command(BaseCommand):
    help = "Replay a trace on a described cluster under several policies, with the service's own scheduler."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--trace", type=Path, metavar="F", help="the trace; docs/traces.md")
        parser.add_argument("--format", metavar="NAME", help=f"its format: {', '.join(FORMATS)}")
        parser.add_argument(
            "--history",
            type=float,
            metavar="DAYS",
            help="in place of a trace what this Berth was asked to do in the last so many days, with its knobs in force",
        )
        parser.add_argument("--profiles", type=Path, metavar="DIR", help="what the format reads beside the trace")
        parser.add_argument("--option", action="append", default=[], metavar="N=V", help="an option of the format")
        parser.add_argument(
            "--cluster", type=Path, metavar="C.yaml", help="see examples/clusters/; with --history its own"
        )
        parser.add_argument("--policy", metavar="A,B,C", help=f"of {EVERY} (default: the one in force, else berth)")
        parser.add_argument("--knob", action="append", default=[], metavar="N=V", help="a knob; docs/settings.md")
        parser.add_argument("--seed", type=int, default=1, help="of noise and solver (default 1)")
        parser.add_argument("--until", type=float, metavar="H", help="cut off after so many hours")
        parser.add_argument(
            "--processes", type=int, default=os.cpu_count() or 1, help="policies beside each other (default: the cores)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--csv", type=Path, metavar="OUT", help="write the figures as CSV, too")
        parser.add_argument("--html", type=Path, metavar="OUT", help="write a page with plots, too")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            answer = self.simulated(options)
        except (SimulationError, TraceError) as error:
            raise CommandError(str(error)) from error
        if options["csv"]:
            file_write(options["csv"], told.as_csv(answer))
        if options["html"]:
            file_write(options["html"], told.as_html(answer))
        if options["json"]:
            self.stdout.write(told.as_json(answer))
        else:
            self.stdout.write("\n".join(table.text() for table in told.as_tables(answer)))

    def simulated(self, options: dict[str, Any]) -> dict[str, Any]:
        if (options["history"] is None) == (options["trace"] is None):
            raise SimulationError("trace", "give either --trace with --format, or --history")
        if options["history"] is None:
            return self.run_one(self.replayed(options), options)
        with TemporaryDirectory(prefix="berth-h-") as folder:
            return self.run_one(self.past(options, Path(folder)), options)

    def replayed(self, options: dict[str, Any]) -> Request:
        """A trace of the user's, with the defaults of the knobs."""
        for name in ("format", "cluster"):
            if options[name] is None:
                raise SimulationError(name, f"a trace needs --{name}")
        own = dict(self.pair("option", text) for text in options["option"])
        trace = TraceFile(options["trace"], options["format"], options["profiles"], own)
        return self.request(options, trace, cluster_read(options["cluster"]), "berth", {})

    def past(self, options: dict[str, Any], folder: Path) -> Request:
        """Our own history, with the knobs in force where none is given."""
        for name in ("format", "profiles"):
            if options[name] is not None:
                raise SimulationError(name, f"--{name} does not go with --history")
        rows = history_rows(days=options["history"], now=timezone.now())
        path = folder / "history.jsonl"
        with path.open("w") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        cluster = cluster_now() if options["cluster"] is None else cluster_read(options["cluster"])
        own = dict(self.pair("option", text) for text in options["option"])
        return self.request(options, TraceFile(path, "berth-jsonl", None, own), cluster, *knobs_in_force())

    def request(
        self, options: dict[str, Any], trace: TraceFile, cluster: ClusterFile, policy: str, knobs: dict[str, Any]
    ) -> Request:
        names = policy if options["policy"] is None else options["policy"]
        return Request(
            trace,
            cluster,
            tuple(filter(None, (name.strip() for name in names.split(",")))),
            options["seed"],
            knobs | knobs_parse(given=options["knob"]),
            options["until"],
        )

    def run_one(self, request: Request, options: dict[str, Any]) -> dict[str, Any]:
        request.check()
        with progress_bars() as watch:
            return simulation_run(request=request, processes=options["processes"], watch=watch(request.policies))

    def pair(self, name: str, text: str) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SimulationError(name, f"{text!r} is not name=value")
        return key, value
