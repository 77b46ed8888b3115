"""`manage.py migrate` as Django has it. It refuses a database from before 0.1."""

from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate

from portal.operate.backups.contents import BackupError
from portal.operate.backups.older import database_refuse


class Command(migrate.Command):
    """Bring the database to the newest migrations, or to those that are named."""

    def handle(self, *arguments: Any, **options: Any) -> Any:
        try:
            database_refuse()
        except BackupError as error:
            raise CommandError(str(error)) from error
        return super().handle(*arguments, **options)
