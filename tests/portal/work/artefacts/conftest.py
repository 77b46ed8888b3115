"""A store of its own for each test, and what waits for a commit done at once: a test's transaction never commits."""

from types import SimpleNamespace

import pytest
from django.db import transaction

from portal.work.artefacts.services import removing, taking


@pytest.fixture(autouse=True)
def data_dir(settings, tmp_path):
    settings.DATA_DIR = tmp_path


def at_once(patch):
    """Let what waits for a commit be done at once."""
    instead = SimpleNamespace(atomic=transaction.atomic, on_commit=lambda act: act())
    patch.setattr(taking, "transaction", instead)
    patch.setattr(removing, "transaction", instead)


@pytest.fixture(autouse=True)
def commits_at_once(monkeypatch):
    at_once(monkeypatch)
