"""The tests' database: on SQLite a copy of the template's, in a file, because threads share that as processes do."""

import contextlib
import shutil
import sqlite3
from unittest import mock

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from django.test.utils import setup_databases, teardown_databases

from portal.layout import Layout


def put_back(original, file):
    """Make a database what the original is, but for its ids, which go on: a process remembers things by ids.

    After a test that commits it is what Django's `flush` is, in a tenth of its time. Other threads may have the file open.
    """
    connection.close()
    with contextlib.closing(sqlite3.connect(original)) as template, contextlib.closing(sqlite3.connect(file)) as used:
        used.execute("PRAGMA synchronous=OFF")
        last = used.execute("SELECT seq, name FROM sqlite_sequence").fetchall()
        template.backup(used)
        known = {name for (name,) in used.execute("SELECT name FROM sqlite_sequence")}
        used.executemany("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", last)
        new = [row for row in last if row[1] not in known]
        used.executemany("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", new)
        used.commit()


@pytest.fixture(scope="session")
def django_db_setup(request, django_test_environment, django_db_blocker, tmp_path_factory):
    """On SQLite a copy of the template's database, which the very same migrations made: they take five seconds."""
    with django_db_blocker.unblock():
        if connection.vendor != "sqlite":
            made = setup_databases(verbosity=0, interactive=False)
            yield
            teardown_databases(made, verbosity=0)
            return
        original = Layout.at(request.getfixturevalue("template")).database
        file = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
        shutil.copyfile(original, file)
        connection.close()
        connection.settings_dict["NAME"] = settings.DATABASES["default"]["NAME"] = file
        with mock.patch.object(TransactionTestCase, "_fixture_teardown", autospec=True) as flush:
            flush.side_effect = lambda _case: put_back(original, file)
            yield
        connection.close()
