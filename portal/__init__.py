"""Berth's portal: the Django project."""

from portal.foundation.celery import app as celery_app

__all__ = ["celery_app"]

VERSION = "0.1.0"
