"""`./berth bench NAME`: run a benchmark and print its figures."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.bench import latency


class Command(BaseCommand):
    help = "Measure. Names: latency (submit to running on an idle virtual GPU)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = parser.add_subparsers(dest="name", required=True)
        one = names.add_parser("latency", help="submit to running on an idle virtual GPU")
        one.add_argument("--submissions", type=int, default=100, help="how many (default 100)")
        one.add_argument("--url", help="measure this Berth instead of starting one; needs --token")
        one.add_argument("--token", help="an API token with the scopes jobs:read and jobs:write")
        one.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["submissions"] < 1:
            raise CommandError("--submissions must be at least 1.")
        if bool(options["url"]) != bool(options["token"]):
            raise CommandError("Give --url and --token together, or neither.")
        try:
            if options["url"]:
                figures = self.measure(options["url"], options["token"], options["submissions"])
            else:
                with latency.berth_idle() as (url, token):
                    figures = self.measure(url, token, options["submissions"])
        except latency.BenchError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(latency.report(figures, as_json=options["json"]))

    def measure(self, url: str, token: str, submissions: int) -> dict[str, Any]:
        return latency.latency_measure(url=url, token=token, submissions=submissions)
