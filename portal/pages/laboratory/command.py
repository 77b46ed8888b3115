"""Common parts of the laboratory's commands: how they refuse, without a traceback.

Exit status: 0 done; 2 what was asked cannot be, and nothing was changed (as argparse has it for its own complaints); 130
stopped by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.utils import DatabaseError

from portal.pages.laboratory.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REFUSED = 2
INTERRUPTED = 130


class Refused(CommandError):
    """The request cannot be done. The text is a sentence that names the option and the remedy."""

    def __init__(self, detail: object) -> None:
        super().__init__(str(detail), returncode=REFUSED)


class LabCommand(BaseCommand):
    """A command of `./berth`. Its help shows its own options only, a refusal is one line, and a closed pipe ends it quietly."""

    suppressed_base_arguments = set(
        """
            --version --verbosity --settings --pythonpath --traceback --no-color --force-color --skip-checks
        """.split()
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser("berth", subcommand, **kwargs)
        parser.prog = f"./berth {subcommand}"
        return parser

    def run_from_argv(self, argv: list[str]) -> None:
        """Run like Django's, but without an error's class in the message, and with Ctrl-C and a closed pipe handled."""
        try:
            super().run_from_argv([*argv[:2], "--traceback", *argv[2:]])
            sys.stdout.flush()
        except CommandError as error:
            self.stderr.write(f"berth: {error}")
            sys.exit(error.returncode)
        except KeyboardInterrupt:
            self.stderr.write("berth: stopped")
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # `| head` has read enough. Python would report it as an error that nobody reads the rest of stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)


def outputs_check(paths: Mapping[str, Path | None]) -> None:
    """Refuse files that cannot be written, before anything is computed. No file is made or emptied. `paths`: by option."""
    for option, path in paths.items():
        if path is None:
            continue
        if path.is_dir():
            raise Refused(f"{option}: {path} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise Refused(f"{option}: {path} cannot be written: there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise Refused(f"{option}: {path} cannot be written: permission denied")


def file_write(path: Path, text: str) -> None:
    """Write a file. Raises CommandError when it cannot be written."""
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.", returncode=REFUSED) from error


def database_check(field: str) -> None:
    """Raise SimulationError when this Berth has no database yet. A missing file is not created."""
    name = connection.settings_dict["NAME"]
    remedy = f"start it once with ./berth up (its data directory is {settings.DATA_DIR}; BERTH_DATA_DIR names another)"
    if connection.vendor == "sqlite" and not os.path.isfile(name):  # noqa: PTH113 - a URI too
        raise SimulationError(field, f"this Berth has no database yet; {remedy}")
    try:
        tables = connection.introspection.table_names()
    except DatabaseError as error:
        raise SimulationError(field, f"this Berth's database does not answer ({error}); {remedy}") from error
    if "jobs_attempt" not in tables:
        raise SimulationError(field, f"this Berth's database is empty; {remedy}")
