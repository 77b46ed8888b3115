"""A world of callers whose uploads lie in a directory of the test's own."""

import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from tests.portal.foundation.api.conftest import world_make


def sha256_of(data):
    return hashlib.sha256(data).hexdigest()


def listed(files, executable=()):
    return [
        {"path": path, "sha256": sha256_of(data), "size_bytes": len(data), "executable": path in executable}
        for path, data in files.items()
    ]


@dataclass
class Sender:
    """Sends files as a client does."""

    caller: Any

    def declare(self, files, **more):
        return self.caller("POST", "/uploads", {"files": listed(files), **more})

    def content(self, data, *, sha256=None, query=""):
        path = f"/uploads/content/{sha256 or sha256_of(data)}{query}"
        return self.caller("PUT", path, raw=data, content_type="application/octet-stream")

    def send(self, files):
        """Send all; return the digest."""
        missing = self.declare(files).json()["missing"]
        for data in files.values():
            if sha256_of(data) in missing:
                answer = self.content(data)
                assert answer.status_code == 200, answer.content
        found = self.declare(files).json()
        assert found["complete"], found
        return found["digest"]


@pytest.fixture
def world(db, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    return world_make()


@pytest.fixture
def lena(world):
    return Sender(world.owner)


@pytest.fixture
def otto(world):
    return Sender(world.outsider)
