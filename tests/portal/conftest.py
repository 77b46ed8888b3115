"""Fixtures of the portal's tests: a broker, and given situations."""

import pytest
import redis
from django.core.cache import cache

from portal.foundation.redis_urls import channels_host, kombu_url
from tests.portal import given


@pytest.fixture(autouse=True)
def nothing_counted():
    """How often somebody asked is counted by user number, which the next test's user has too."""
    cache.clear()


@pytest.fixture
def cluster(db):
    """Tenant vision-lab with owner lena, and node n1 of 4 GPUs and 8 cores."""
    return given.Cluster.make()


@pytest.fixture
def shared_cluster(transactional_db):
    """The same, committed, for tests with threads."""
    return given.Cluster.make()


@pytest.fixture
def broker_settings(settings, broker_server):
    """Settings that point at a real Redis-compatible server, emptied first."""
    if broker_server.process.poll() is not None:
        broker_server.start()
    redis.Redis.from_url(broker_server.url).flushall()
    settings.REDIS_URL = broker_server.url
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [channels_host(broker_server.url)]},
        }
    }
    from portal.foundation.celery import app

    before = app.conf.broker_url, app.conf.broker_read_url, app.conf.broker_write_url
    url = kombu_url(broker_server.url)
    app.conf.update(broker_url=url, broker_read_url=url, broker_write_url=url)
    app._after_fork()  # forgets its connection pools
    yield broker_server
    app.conf.broker_url, app.conf.broker_read_url, app.conf.broker_write_url = before
    app._after_fork()
