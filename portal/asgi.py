"""The ASGI door: HTTP to Django, WebSockets to Channels, and the agents' long poll as a plain ASGI app."""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.core.asgi import get_asgi_application

from portal.foundation.secret_key import key_require

APART = 4
"""Requests at once to `/healthz`, and to `/livez`: they have threads of their own, for they tell that all others are taken."""

key_require()
asgi_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import path, re_path

from portal.bodies import Bounded
from portal.foundation.api.request_threads import RequestThreads
from portal.foundation.api.sockets import own_pages_only
from portal.foundation.events import relay
from portal.foundation.job_names import is_job_host
from portal.foundation.loaded import portal_loaded
from portal.foundation.read_only import service_begin
from portal.nodes.channel import channel_application
from portal.nodes.sync import sync_application
from portal.operate.health.within import Within
from portal.pages.dashboard.board import ticker
from portal.pages.dashboard.forward.socket import forward_application
from portal.pages.dashboard.ports.door import ports_application
from portal.pages.dashboard.shell.consumers import LiveConsumer
from portal.pages.dashboard.terminal.socket import terminal_application
from portal.work.jobs.api.log_socket import LogConsumer
from portal.work.uploads.receiving import Receiving

django_application = Bounded(RequestThreads(asgi_application))
http_routes = [
    path("livez", Bounded(RequestThreads(asgi_application, most=APART))),
    path("healthz", Within(Bounded(RequestThreads(asgi_application, most=APART)))),
    path("api/agent/v1/sync", sync_application),
    path("api/v1/uploads/content/<str:sha256>", Receiving(django_application)),
    re_path(r"", django_application),
]
websocket_routes = [
    path("ws/live", own_pages_only(AuthMiddlewareStack(LiveConsumer.as_asgi()))),
    path("ws/jobs/<str:number>/logs", LogConsumer.as_asgi()),
    path("ws/jobs/<str:number>/terminal", terminal_application),
    path("ws/jobs/<str:number>/forward", forward_application),
    path("api/agent/v1/channel", channel_application),
    re_path(r"", WebsocketDenier.as_asgi()),
]


class Served(ProtocolTypeRouter):
    """Starts the threads that serve beside it when a server first calls it: to import it starts none.

    The Host decides first: a job's reaches only what carries its ports, and the portal's never does.
    """

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        service_begin()
        relay.start()
        ticker.start()
        hosts = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
        if any(is_job_host(host, settings.JOBS_DOMAIN) for host in hosts):
            await ports_application(scope, receive, send)
            return
        await super().__call__(scope, receive, send)


application = Served(
    {
        "http": URLRouter(http_routes),
        "websocket": URLRouter(websocket_routes),
    }
)

portal_loaded()
