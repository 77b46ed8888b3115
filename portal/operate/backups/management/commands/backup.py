"""`./berth backup`: writes all of Berth into one file, and checks the file by restoring it. Berth may run meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from portal.operate.backups.contents import BackupError
from portal.operate.backups.making import backup_make

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = (
        "Write database, signing key, certificates and the tokens of this machine's nodes into one file. Check the file by "
        "restoring it into a temporary database. Berth may run meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", type=Path, metavar="FILE|DIR", help="where to write it (default: DIR/backups/)")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            made = backup_make(to=options["to"], tell=self.stdout.write)
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{made.path} ({made.size_bytes / 2**20:.1f} MiB, {made.took_s:.0f} s)")
        self.stdout.write(
            "The file holds the signing key and all data. Keep it on another machine, where only you can read it."
        )
