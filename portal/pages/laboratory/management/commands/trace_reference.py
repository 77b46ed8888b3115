"""`./berth manage trace_reference`: write docs/traces.md from the formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import MOST_GPUS, MOST_NUMBER, MOST_SIZES

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from scheduler.simulator.traces.source import Format


HEAD = """# Traces

<!-- Made by `./berth manage trace_reference` from the code; do not edit. -->

`./berth simulate --trace FILE --format NAME` replays a trace; a file whose name ends with `.gz` is unpacked on the way.
`--option name=value` says what the trace does not. Jobs may stand in any order. A line that cannot be read stops
everything, with the file's name, the line and the column. Numbers go up to {most:g}, a job's GPUs up to {gpus}, its requirement
set has at most {sizes} counts, and a field of CSV at most 128 KiB.

What a format reads beside the trace (profiles, tables) is looked for in the folder given with `--profiles`, or in the
trace's own. Nothing of third parties comes with Berth: fetch public traces from where they are published, under their
licences.
"""


class Command(BaseCommand):
    help = "Write docs/traces.md: every trace format with its columns, units and options."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / "docs" / "traces.md"
        wanted = reference_text()
        if not options["check"]:
            path.write_text(wanted)
            self.stdout.write(f"wrote {path}")
        elif not path.exists() or path.read_text() != wanted:
            raise CommandError(f"{path} is out of date: run ./berth manage trace_reference.")


def reference_text() -> str:
    head = HEAD.format(most=MOST_NUMBER, gpus=MOST_GPUS, sizes=MOST_SIZES)
    return "\n".join([head, *(_section(each) for each in FORMATS.values())])


def _section(form: Format) -> str:
    lines = [f"## `{form.name}`", "", f"{form.meaning[0].upper()}{form.meaning[1:]}.", ""]
    lines += ["| column | unit | meaning |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {each.unit} | {_cell(each.meaning)} |" for each in form.columns]
    if form.dated:
        lines += ["", "Times are dates; the first arrival becomes time 0."]
    if form.companions:
        lines += ["", f"Read beside it: {form.companions}."]
    if form.options:
        lines += ["", "| option | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in form.options.items()]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
