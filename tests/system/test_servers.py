"""The fixtures themselves: real servers answer, also after a kill; the broker keeps nothing on disk (docs/decisions/0021)."""

import os
from pathlib import Path

import psycopg
import pytest
import redis

from research.bench import postgres
from tests.servers import private_directory

pytestmark = pytest.mark.system


def test_the_broker_answers_again_after_a_kill_and_has_written_nothing(broker_server):
    client = redis.Redis.from_url(broker_server.url)
    client.set("known", "yes")
    broker_server.kill()
    broker_server.start()
    assert redis.Redis.from_url(broker_server.url).get("known") is None


def test_the_broker_refuses_without_the_password(broker_server):
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(unix_socket_path=str(broker_server.server.socket_path)).ping()


@pytest.mark.postgres
def test_postgres_answers(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        owner = connection.execute("show data_directory").fetchone()[0]
    assert Path(owner).stat().st_uid != 0


@pytest.mark.postgres
@pytest.mark.skipif(os.getuid() != 0, reason="only under root is it another account that starts it")
def test_postgres_starts_from_a_clone_where_other_accounts_may_not_look(monkeypatch):
    """Its libraries lie beside its package, and go along."""
    monkeypatch.setattr(postgres, "_reachable", lambda *_: False)
    with private_directory() as directory, postgres.postgres_started(directory) as run_sql:
        assert "42" in run_sql("SELECT 6 * 7")
        assert (directory / "pg").exists()
