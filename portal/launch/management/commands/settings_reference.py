"""`./berth manage settings_reference`: write docs/settings.md from the code, or check that it is up to date."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.reference import document


class Command(BaseCommand):
    help = "Write docs/settings.md from the one place that defines the settings."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; fail when the file is out of date")

    def handle(self, *_args: Any, **options: Any) -> None:
        # The one place where both sides' settings meet.
        from workers.agent.settings import SETTINGS, flag_of, variable_of
        from workers.bridge import settings as bridge

        path = settings.BASE_DIR / "docs" / "settings.md"
        names = {"url": "--join"}  # as `./berth node` has it
        text = document(
            ((f"{names.get(each.name) or flag_of(each)}, {variable_of(each)}", each) for each in SETTINGS),
            ((bridge.flag(each), each) for each in bridge.SETTINGS),
        )
        if not options["check"]:
            path.write_text(text)
            self.stdout.write(f"wrote {path.relative_to(settings.BASE_DIR)}")
        elif not path.exists() or path.read_text() != text:
            raise CommandError("docs/settings.md is out of date; run ./berth manage settings_reference.")
