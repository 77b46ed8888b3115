"""`manage.py migrate` as Django has it, in two thirds of the time (portal/backups/migrating.py)."""

from typing import Any

from django.core.management.commands.migrate import Command as Migrate

from portal.backups.migrating import migrating


class Command(Migrate):
    """Bring the database to the newest migrations, or to those that are named."""

    def handle(self, *arguments: Any, **options: Any) -> Any:
        with migrating():
            return super().handle(*arguments, **options)
