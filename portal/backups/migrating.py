"""Django's migrations with less work for the models between them: from nothing they take a third less time.

At each of some 400 operations Django makes the models anew that have to do with the one that changes, 8 000 in all, and for
each of their fields it asks the field how it was made and makes another so. Here a field that refers to no other model is
copied instead, and one that does is asked once (docs/decisions/0188).

To go back Django first makes the state before each migration, and then, to undo one, those between its operations: the same
ones again. Here they are kept from the first time (docs/decisions/0217).
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db.migrations import Migration
from django.db.models import Field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations.operations.base import Operation
    from django.db.migrations.state import ProjectState

    Steps = list[tuple[Operation, ProjectState, ProjectState]]

_clone, _mutate_state, _unapply = Field.clone, Migration.mutate_state, Migration.unapply
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
    try:
        yield
    finally:
        Field.clone, Migration.mutate_state, Migration.unapply = _clone, _mutate_state, _unapply
        _kept.clear()
