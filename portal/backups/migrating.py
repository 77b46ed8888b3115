"""Django's migrations with less work for the models between them.

At each operation Django makes the models anew that have to do with the one that changes, and for each of their fields it
asks the field how it was made and makes another so. Here a field that refers to no other model is copied instead, and one
that does is asked once (docs/decisions/0188). Models that one migration makes one after the other are made together
(docs/decisions/0228).

To go back Django first makes the state before each migration, and then, to undo one, those between its operations: the same
ones again. Here they are kept from the first time (docs/decisions/0217).

An empty database is made by squashed migrations, each in the place of many. `OneByOne` goes through those that they replace.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.db.migrations import CreateModel, Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.operations.base import Operation
    from django.db.migrations.state import ProjectState

    Steps = list[tuple[Operation, ProjectState, ProjectState]]

_clone, _mutate_state = Field.clone, Migration.mutate_state
_apply, _unapply = Migration.apply, Migration.unapply
_kept: dict[Migration, tuple[ProjectState, Steps]] = {}
"""Of each migration that will be undone: the state before it, and its operations with the states before and after each."""


def _clone_quickly(field: Any) -> Any:
    """Do what `Field.clone` does, for a field of a state between migrations."""
    if field.name or hasattr(field, "model"):  # it was part of a model, and knows things that are the model's
        return _clone(field)
    if field.is_relation:
        if not hasattr(field, "made_from"):
            field.made_from = field.deconstruct()[2:]
        arguments, keywords = field.made_from
        return type(field)(*arguments, **keywords)
    made = copy.copy(field)
    if not field.auto_created:  # the order of a model's fields
        made.creation_counter = Field.creation_counter
        Field.creation_counter += 1
    return made


def _apply_together(
    migration: Migration, state: ProjectState, editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
) -> ProjectState:
    """Do what `Migration.apply` does, but make the models of tables that follow each other together."""
    if collect_sql:
        return _apply(migration, state, editor, collect_sql)
    for tables, run in groupby(migration.operations, lambda operation: type(operation) is CreateModel):
        if tables:
            _tables_together(migration.app_label, list(run), state, editor)
        else:
            part = copy.copy(migration)
            part.operations = list(run)
            state = _apply(part, state, editor)
    return state


def _tables_together(
    app: str, operations: list[CreateModel], state: ProjectState, editor: BaseDatabaseSchemaEditor
) -> None:
    rendered = state.__dict__.pop("apps", None)  # without them a state makes no models
    for operation in operations:
        operation.state_forwards(app, state)
    if rendered is not None:
        state.__dict__["apps"] = rendered
        state.reload_models({(app, operation.name_lower) for operation in operations}, delay=False)
    for operation in operations:
        operation.database_forwards(app, editor, state, state)


def _mutate_state_and_keep(migration: Migration, state: ProjectState, preserve: bool = True) -> ProjectState:
    """Do what `Migration.mutate_state` does. Where Django asks for a new state, it will undo the migration: keep its steps."""
    if not preserve:
        return _mutate_state(migration, state, preserve=False)
    steps, new = [], state
    for operation in migration.operations:
        new, old = new.clone(), new.clone()
        operation.state_forwards(migration.app_label, new)
        steps.append((operation, old, new))
    _kept[migration] = state, steps
    return new.clone()  # Django may change it


def _unapply_kept(
    migration: Migration, state: ProjectState, editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
) -> ProjectState:
    """Do what `Migration.unapply` does, with the states that were kept where they are those."""
    before, steps = _kept.pop(migration, (None, []))
    usual = before is not state or collect_sql or not editor.atomic_migration
    if usual or not all(operation.reversible for operation in migration.operations):
        return _unapply(migration, state, editor, collect_sql)
    for operation, to_state, from_state in reversed(steps):
        operation.database_backwards(migration.app_label, editor, from_state, to_state)
    return state


@contextmanager
def migrating() -> Iterator[None]:
    """Let migrations that are run meanwhile make their models quickly. The process does nothing else with models then."""
    Field.clone = _clone_quickly
    Migration.mutate_state, Migration.unapply = _mutate_state_and_keep, _unapply_kept
    Migration.apply = _apply_together
    try:
        yield
    finally:
        Field.clone, Migration.mutate_state = _clone, _mutate_state
        Migration.apply, Migration.unapply = _apply, _unapply
        _kept.clear()


class EachOne(MigrationLoader):
    """All migrations as they were written, without those that stand for many."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, replace_migrations=False)

    def build_graph(self) -> None:
        """Do what Django does, and take the squashed ones out."""
        super().build_graph()
        for key, migration in self.replacements.items():
            self.graph.remove_replacement_node(key, migration.replaces)


class OneByOne(MigrationExecutor):
    """Goes to a state between migrations that a squashed one stands for, or back from there."""

    def __init__(self, connection: Any, progress_callback: Any = None) -> None:
        super().__init__(connection, progress_callback)
        self.loader = EachOne(connection)

    def migrate(self, *arguments: Any, **options: Any) -> Any:
        """Do what Django does. A squashed migration of which a part was taken back is not applied any more."""
        state = super().migrate(*arguments, **options)
        applied = self.recorder.applied_migrations()
        for key, migration in self.loader.replacements.items():
            if key in applied and not all(each in applied for each in migration.replaces):
                self.recorder.record_unapplied(*key)
        return state
