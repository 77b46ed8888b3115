"""What the portal's tests share: a database in a file (threads share it as processes do), and given situations."""

import pytest
from django.db import connection

from tests.portal import given


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory):
    """SQLite in a file: Django's default, in memory, knows neither WAL nor waiting for another writer."""
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture
def cluster(db):
    """Tenant vision-lab with owner lena, and node n1 of 4 GPUs and 8 cores."""
    return given.Cluster.make()


@pytest.fixture
def shared_cluster(transactional_db):
    """The same, committed, for tests with threads."""
    return given.Cluster.make()
