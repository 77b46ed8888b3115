"""Paths under /api/bridge/v1/."""

from django.urls import path

from portal.nodes.bridge import BridgeAttachView, BridgeExchangeView

urlpatterns = [
    path("attach", BridgeAttachView.as_view(), name="bridge-attach"),
    path("exchange", BridgeExchangeView.as_view(), name="bridge-exchange"),
]
