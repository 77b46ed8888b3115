"""Pages are rendered from plain contexts: no request, no database."""

import pytest
from django.conf import settings
from django.test import override_settings


@pytest.fixture(scope="module")
def plain_static():
    """For a whole module at once: each change of settings drops the loaded storages."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    storages = {**settings.STORAGES, "staticfiles": plain}
    with override_settings(STORAGES=storages):
        yield
