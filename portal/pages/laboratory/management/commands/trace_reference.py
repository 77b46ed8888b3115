"""`./berth manage trace_reference`: write docs/traces.md from the formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.pages.laboratory.sources.trace_reference import reference_text

if TYPE_CHECKING:
    from argparse import ArgumentParser


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
