"""Every HTTP path of the portal. The agent API's long poll and WebSockets are in `portal.asgi`."""

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]
