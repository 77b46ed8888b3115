"""`./berth backup`: the whole of Berth in one file, while it runs, proven by restoring it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from portal.backups.errors import BackupError
from portal.backups.making import backup_make

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = (
        "Write database, signing key, certificates and the tokens of this machine's nodes into one file, and restore it "
        "into a scratch database to prove it. Berth may run meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, metavar="FILE|DIR", help="where to (default: DIR/backups/)")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            made = backup_make(to=options["to"], tell=self.stdout.write)
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{made.path} ({made.size_bytes / 2**20:.1f} MiB, {made.took_s:.0f} s)")
        self.stdout.write(
            "It holds the signing key and all data: keep it where only you can read it, on another machine."
        )
