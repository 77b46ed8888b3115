"""`./berth simulate`: replay a trace under several policies and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from portal.simulations import told
from portal.simulations.bars import progress_bars
from portal.simulations.clusters import cluster_read
from portal.simulations.command import file_write
from portal.simulations.errors import SimulationError
from portal.simulations.services import Request, knobs_parse, simulation_run
from portal.simulations.traces import TraceFile
from scheduler.policy import POLICIES
from scheduler.simulator.rivals import RIVALS
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import TraceError

if TYPE_CHECKING:
    from argparse import ArgumentParser

EVERY = ", ".join([*POLICIES, *RIVALS])


class Command(BaseCommand):
    help = "Replay a trace on a described cluster under several policies, with the service's own scheduler."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--trace", type=Path, metavar="F", required=True, help="the trace; docs/traces.md")
        parser.add_argument("--format", metavar="NAME", required=True, help=f"its format: {', '.join(FORMATS)}")
        parser.add_argument("--profiles", type=Path, metavar="DIR", help="what the format reads beside the trace")
        parser.add_argument("--option", action="append", default=[], metavar="N=V", help="an option of the format")
        parser.add_argument("--cluster", type=Path, metavar="C.yaml", required=True, help="see examples/clusters/")
        parser.add_argument("--policy", default="berth", metavar="A,B,C", help=f"of {EVERY} (default berth)")
        parser.add_argument("--knob", action="append", default=[], metavar="N=V", help="a knob; docs/settings.md")
        parser.add_argument("--seed", type=int, default=1, help="of noise and solver (default 1)")
        parser.add_argument("--until", type=float, metavar="H", help="cut off after so many hours")
        parser.add_argument("--processes", type=int, default=1, help="policies beside each other (default 1)")
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
        own = dict(self.pair("option", text) for text in options["option"])
        request = Request(
            TraceFile(options["trace"], options["format"], options["profiles"], own),
            cluster_read(options["cluster"]),
            tuple(filter(None, (name.strip() for name in options["policy"].split(",")))),
            options["seed"],
            knobs_parse(given=options["knob"]),
            options["until"],
        )
        request.check()
        with progress_bars() as watch:
            return simulation_run(request=request, processes=options["processes"], watch=watch(request.policies))

    def pair(self, name: str, text: str) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SimulationError(name, f"{text!r} is not name=value")
        return key, value
