"""Celery inside the portal: plannings, reconciliation, roll-ups. Messages carry nothing; the database is the truth."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.rounds", "portal.jobs", "portal.cluster", "portal.events"])
