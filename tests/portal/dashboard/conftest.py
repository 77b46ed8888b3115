"""Pages are rendered from plain contexts: no views, no database."""

import pytest


@pytest.fixture(autouse=True)
def plain_urls(settings):
    settings.ROOT_URLCONF = "tests.portal.dashboard.urls"
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
