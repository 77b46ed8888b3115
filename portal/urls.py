"""Every HTTP path of the portal. The agent API's long poll and WebSockets are in `portal.asgi`."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/agent/v1/", include("portal.cluster.agent_urls")),
]
