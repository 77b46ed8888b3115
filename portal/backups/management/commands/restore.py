"""`./berth restore FILE`, run by the launcher while Berth stands still; `--check` reads and checks only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from portal.backups.errors import BackupError
from portal.backups.restoring import backup_check, backup_restore

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Put a backup in the place of what this data directory and its database hold. Nobody may be using them."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a file that ./berth backup made")
        parser.add_argument("--check", action="store_true", help="read and check it, and change nothing")

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
            raise CommandError(f"The restore stopped before its end ({why}). Mend that, and run it again.") from error
        self.stdout.write(
            f"Restored to {settled.made_at:%F %T} UTC: {settled.waiting} jobs wait, {settled.running} run as far as it knows, "
            f"{settled.nodes} nodes are asked what runs on them. Start Berth with ./berth up."
        )
