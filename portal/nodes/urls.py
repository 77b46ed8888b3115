"""Paths under /api/agent/v1/; `sync` is routed in `portal.asgi`."""

from django.urls import path

from portal.nodes import api as agent_api
from portal.nodes import api_artefacts, api_logs

urlpatterns = [
    path("register", agent_api.RegisterView.as_view(), name="agent-register"),
    path("hello", agent_api.HelloView.as_view(), name="agent-hello"),
    path("report", agent_api.ReportView.as_view(), name="agent-report"),
    path("leave", agent_api.LeaveView.as_view(), name="agent-leave"),
    path("telemetry", agent_api.TelemetryView.as_view(), name="agent-telemetry"),
    path("records", agent_api.RecordsView.as_view(), name="agent-records"),
    path("logs", api_logs.LogsView.as_view(), name="agent-logs"),
    path("logs/together", api_logs.LogsTogetherView.as_view(), name="agent-logs-together"),
    path("artefacts", api_artefacts.ArtefactsView.as_view(), name="agent-artefacts"),
    path("artefacts/piece", api_artefacts.ArtefactPieceView.as_view(), name="agent-artefact-piece"),
    path("attempts/<str:attempt>/content/<str:sha256>", agent_api.ContentView.as_view(), name="agent-content"),
    path("attempts/<str:attempt>/secrets", agent_api.SecretsView.as_view(), name="agent-secrets"),
    path("attempts/<str:attempt>/spec", agent_api.SpecView.as_view(), name="agent-spec"),
]
