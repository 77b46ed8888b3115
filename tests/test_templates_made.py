"""The tests' templates: kept parts give the very files that are made from nothing."""

import contextlib
import re
import sqlite3

import pytest

from portal.foundation.layout import Layout
from tests import berths

MOMENT = re.compile(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?'")


def dump_of(database):
    """Schema, triggers, rows and ids, but for the moments at which something was written."""
    with contextlib.closing(sqlite3.connect(database)) as found:
        return sorted(MOMENT.sub("?", line) for line in found.iterdump())


@pytest.mark.impure
def test_a_database_from_kept_migrations_is_what_it_is_from_nothing(template, tmp_path):
    """In a fresh clone the template was made from nothing."""
    original = Layout.at(template).database
    berths.migrated_keep(original, tmp_path / f"migrated-{berths.key_of('portal/**/migrations/*.py')}")
    layout = Layout.at(tmp_path / "data")
    layout.prepare()
    berths.database_make(layout, tmp_path)
    assert dump_of(layout.database) == dump_of(original)
    assert layout.database.stat().st_mode == original.stat().st_mode


def test_static_files_are_collected_once_until_one_changes(tmp_path, monkeypatch):
    collected = []

    def collect(layout, *command):
        collected.append(command)
        (layout.root / "static" / "css").mkdir(parents=True, exist_ok=True)
        (layout.root / "static" / "css" / "a.css").write_text(f"{len(collected)}")

    source, kept = tmp_path / "source", tmp_path / "kept"
    (source / "static").mkdir(parents=True)
    kept.mkdir()
    monkeypatch.setattr(berths, "manage", collect)
    monkeypatch.setattr(berths, "SOURCE", source)
    found = []
    for name, script in (("one", "x"), ("two", "x"), ("three", "changed")):
        (source / "static" / "a.js").write_text(script)
        layout = Layout.at(tmp_path / name)
        layout.prepare()
        berths.static_make(layout, kept)
        found.append((layout.root / "static" / "css" / "a.css").read_text())
    assert found == ["1", "1", "2"]
    assert len(list(kept.iterdir())) == 1
