"""Every HTTP path of the portal. The agent API's long poll and WebSockets are in `portal.asgi`."""

from django.contrib import admin
from django.urls import include, path

from portal.accounts.forms import ConsoleSignInForm
from portal.health.gpus import gpu_metrics
from portal.health.health import healthz, livez
from portal.health.prometheus import metrics

admin.autodiscover()
admin.site.login_form = ConsoleSignInForm

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("livez", livez, name="livez"),
    path("metrics", metrics, name="metrics"),
    path("metrics/gpus", gpu_metrics, name="metrics-gpus"),
    path("api/v1/", include("portal.api_urls")),
    path("api/agent/v1/", include("portal.agents.urls")),
    path("", include("portal.laboratory.pages.urls")),
    path("", include("portal.dashboard.urls")),
]

handler400 = "portal.dashboard.shell.error_views.bad_request"
handler403 = "portal.dashboard.shell.error_views.permission_denied"
handler404 = "portal.dashboard.shell.error_views.not_found"
handler500 = "portal.dashboard.shell.error_views.server_error"
