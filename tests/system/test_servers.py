"""The fixtures themselves: real servers answer, and a killed broker keeps what it had acknowledged."""

from pathlib import Path

import psycopg
import pytest
import redis

pytestmark = pytest.mark.system


def test_the_broker_keeps_its_data_over_a_kill(broker_server):
    client = redis.Redis.from_url(broker_server.url)
    client.config_set("appendfsync", "always")  # then an answer means that it is on disk
    client.set("kept", "yes")
    broker_server.kill()
    broker_server.start()
    assert redis.Redis.from_url(broker_server.url).get("kept") == b"yes"


def test_the_broker_refuses_without_the_password(broker_server):
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(unix_socket_path=str(broker_server.server.socket_path)).ping()


@pytest.mark.postgres
def test_postgres_answers(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        owner = connection.execute("show data_directory").fetchone()[0]
    assert Path(owner).stat().st_uid != 0
