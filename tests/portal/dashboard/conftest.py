"""Pages are rendered from plain contexts: no views, no database."""

import pytest
from django.conf import settings
from django.test import override_settings


@pytest.fixture(scope="module")
def plain_urls():
    """For a whole module at once: each change of settings drops the loaded URLs and storages."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    storages = {**settings.STORAGES, "staticfiles": plain}
    with override_settings(ROOT_URLCONF="tests.portal.dashboard.urls", STORAGES=storages):
        yield
