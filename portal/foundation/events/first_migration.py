"""A first migration: the models of all its tables are made at once, and then the tables (docs/decisions/0253)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.migrations import Migration

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.state import ProjectState


class FirstMigration(Migration):
    """Makes the tables of an app. Django would make all models anew that a table has to do with, for each table."""

    initial = True

    def apply(
        self, project_state: ProjectState, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> ProjectState:
        """Do what `Migration.apply` does, with the last state for each operation. It fits where none changes a table."""
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        project_state.__dict__.pop("apps", None)  # without its models a state makes none at an operation
        for operation in self.operations:
            operation.state_forwards(self.app_label, project_state)
        for operation in self.operations:
            operation.database_forwards(self.app_label, schema_editor, project_state, project_state)
        return project_state
