"""`./berth manage client_fields`: write the client's part of the table of a job's fields."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from portal.work.jobs.declaration.openapi import client_text


class Command(BaseCommand):
    help = "Write client/berth_client/fields.py from the table of a job's fields."

    def handle(self, *_args: Any, **_options: Any) -> None:
        (settings.BASE_DIR / "client" / "berth_client" / "fields.py").write_text(client_text())
