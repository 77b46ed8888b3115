"""The tests' database: on SQLite a copy of the template's, in a file, because threads share that as processes do.

After a test that commits, what the database had at first is put back, on Postgres too. Django is imported by the first test
that wants a database: the core's tests run without it.
"""

import contextlib
import shutil
import sqlite3
from unittest import mock

import pytest

from portal.foundation.layout import Layout


def put_back(original, file):
    """Make a database what the original is, but for its ids, which go on: a process remembers things by ids.

    After a test that commits it is what Django's `flush` is, in a tenth of its time. Other threads may have the file open.
    """
    from django.db import connection

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


LARGE_BYTES = 1 << 20
ORIGINAL = """
CREATE SCHEMA original;
CREATE VIEW original.written AS
  SELECT relname AS name, pg_relation_size(oid) AS bytes FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0;
DO $$ DECLARE each text;
BEGIN
  FOR each IN SELECT name FROM original.written LOOP
    EXECUTE format('CREATE TABLE original.%1$I AS TABLE public.%1$I', each);
  END LOOP;
END $$;
"""
"""A schema with the tables' first rows: Django's lists of models and permissions, and the schedule."""
PUT_BACK = """
DO $$ DECLARE each text; columns text;
BEGIN
  SET LOCAL session_replication_role = replica;
  FOR each IN SELECT name FROM original.written LOOP
    EXECUTE format('DELETE FROM public.%I', each);
  END LOOP;
  FOR each, columns IN
    SELECT relname, string_agg(quote_ident(attname), ', ') FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = 'original'::regnamespace AND relkind = 'r' AND attnum > 0 GROUP BY relname
  LOOP
    EXECUTE format('INSERT INTO public.%1$I (%2$s) SELECT %2$s FROM original.%1$I', each, columns);
  END LOOP;
END $$;
"""
"""A replica's session fires no trigger and asks for no foreign key, so the tables' order does not matter."""
LARGE = f"SELECT name FROM original.written WHERE bytes > {LARGE_BYTES}"


def put_back_on_postgres():
    """The same on Postgres, where `flush` makes a new file for each table and each index, and then asks all apps for their rows."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(PUT_BACK)
        cursor.execute(LARGE)
        for (name,) in cursor.fetchall():  # the next test neither reads its dead rows nor is planned for them
            cursor.execute(f"VACUUM ANALYZE public.{connection.ops.quote_name(name)}")


@pytest.fixture(scope="session")
def django_db_setup(request, django_test_environment, django_db_blocker, tmp_path_factory):
    """On SQLite a copy of the template's database, which the very same migrations made: they take five seconds."""
    from django.conf import settings
    from django.db import connection
    from django.test import TransactionTestCase
    from django.test.utils import setup_databases, teardown_databases

    with django_db_blocker.unblock():
        if connection.vendor != "sqlite":
            made = setup_databases(verbosity=0, interactive=False, serialized_aliases=())
            with connection.cursor() as cursor:
                cursor.execute(ORIGINAL)
            with mock.patch.object(TransactionTestCase, "_fixture_teardown", side_effect=put_back_on_postgres):
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
