"""`./berth restore FILE`: the launcher runs it while Berth is stopped. `--check` only reads and checks the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from portal.operate.backups.contents import BackupError
from portal.operate.backups.restoring import backup_check, backup_restore

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Replace this data directory and its database by a backup. Nothing may use them meanwhile."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a file that ./berth backup made")
        parser.add_argument("--check", action="store_true", help="only read and check the file; change nothing")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            if options["check"]:
                backup_check(options["file"])
                self.stdout.write(f"{options['file']} is whole.")
                return
            settled = backup_restore(options["file"], tell=self.stdout.write)
        except BackupError as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError) as error:
            why = str(error).strip().splitlines()[0]
            raise CommandError(f"The restore did not finish ({why}). Correct that, and run it again.") from error
        self.stdout.write(
            f"Restored to {settled.made_at:%F %T} UTC: {settled.waiting} jobs wait, and {settled.running} were running. "
            f"Berth asks {settled.nodes} nodes what runs on them now. Start Berth with ./berth up."
        )
