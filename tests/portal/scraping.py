"""Prometheus, as `./berth up` lets it in: with the token in the data directory."""

from django.conf import settings
from django.test import Client

from portal.foundation.layout import Layout, write_private


def scraper(**more):
    write_private(Layout.at(settings.DATA_DIR).metrics_token, "scrape-token-1\n")
    return Client(headers={"authorization": "Bearer scrape-token-1"}, **more)
