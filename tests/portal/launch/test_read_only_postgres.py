"""A kept connection to a Postgres server that takes no writes, as one that was demoted: it is closed, and the next one writes."""

import dj_database_url
import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

pytestmark = [pytest.mark.postgres, pytest.mark.impure, pytest.mark.slow]


@pytest.fixture
def kept(postgres_url, postgres_server, django_db_blocker):
    """A connection whose session is read-only, to a database that takes writes again."""
    _, run_sql = postgres_server
    kept = ConnectionHandler({"default": dj_database_url.parse(postgres_url, conn_max_age=600)})["default"]
    name = kept.settings_dict["NAME"]
    with django_db_blocker.unblock():
        ask(kept, "CREATE TABLE notes (words text)")
        kept.close()
        run_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        ask(kept, "SELECT count(*) FROM notes")
        run_sql(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        yield kept
        kept.close()


def ask(connection, words):
    with connection.cursor() as cursor:
        cursor.execute(words)


def test_one_refusal_and_the_next_connection_writes(kept):
    """The refusal is that of a database that is away: REST answers 503, and tasks come again."""
    with pytest.raises(OperationalError, match="read-only transaction"):
        ask(kept, "INSERT INTO notes VALUES ('x')")
    kept.close_if_unusable_or_obsolete()  # what `close_old_connections` calls, at the end of each request and task
    ask(kept, "INSERT INTO notes VALUES ('x')")
