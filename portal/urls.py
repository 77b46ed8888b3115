"""Every HTTP path of the portal. The agent API's long poll and WebSockets are in `portal.asgi`."""

from django.contrib import admin
from django.urls import include, path

from portal.operate.health.gpus import gpu_metrics
from portal.operate.health.health import healthz, livez
from portal.operate.health.prometheus import metrics
from portal.pages.dashboard.console.home import home
from portal.pages.laboratory.api.bridge import BridgeHistoryView

admin.autodiscover()
admin.site.index = home

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("livez", livez, name="livez"),
    path("metrics", metrics, name="metrics"),
    path("metrics/gpus", gpu_metrics, name="metrics-gpus"),
    path("api/v1/", include("portal.api_urls")),
    path("api/agent/v1/", include("portal.nodes.urls")),
    path("api/bridge/v1/history", BridgeHistoryView.as_view(), name="bridge-history"),
    path("api/bridge/v1/", include("portal.nodes.bridge_urls")),
    path("", include("portal.pages.registry")),
]

handler400 = "portal.pages.dashboard.shell.error_views.bad_request"
handler403 = "portal.pages.dashboard.shell.error_views.permission_denied"
handler404 = "portal.pages.dashboard.shell.error_views.not_found"
handler500 = "portal.pages.dashboard.shell.error_views.server_error"
