"""`manage.py migrate` as Django has it, in less time, and also to migrations that squashed ones replace."""

from typing import Any

from django.core.management.commands import migrate
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import AmbiguityError, MigrationLoader

from portal.backups.migrating import OneByOne, migrating


class Command(migrate.Command):
    """Bring the database to the newest migrations, or to those that are named."""

    def handle(self, *arguments: Any, **options: Any) -> Any:
        executor = OneByOne if _is_replaced(options["app_label"], options["migration_name"]) else MigrationExecutor
        migrate.MigrationExecutor = executor
        try:
            with migrating():
                return super().handle(*arguments, **options)
        finally:
            migrate.MigrationExecutor = MigrationExecutor


def _is_replaced(app: str | None, name: str | None) -> bool:
    """Say whether a squashed migration stands for the one that is asked for."""
    if not app or not name:
        return False
    loader = MigrationLoader(None)
    try:
        found = loader.get_migration_by_prefix(app, name)
    except (AmbiguityError, KeyError):  # `zero` too; Django says what is wrong
        return False
    return any((app, found.name) in each.replaces for each in loader.replacements.values())
