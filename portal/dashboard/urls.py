"""The pages' paths: those on the whole cluster here, those on jobs in `jobs.urls`."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from portal.dashboard import views
from portal.dashboard.jobs.urls import job_urls
from portal.dashboard.queue import views as queue_views

page_urls = [
    path("", views.overview_page, name="overview"),
    path("fragments/overview/<slug:name>", views.overview_fragment, name="overview-fragment"),
    path("figures/<slug:name>", views.figure, name="figure"),
    path("queue/", queue_views.queue, name="queue"),
    path("cluster/", views.cluster_list, name="cluster"),
    path("cluster/board", views.cluster_board, name="cluster-board"),
    path("cluster/rows", views.cluster_rows, name="cluster-rows"),
    path("cluster/fragments/<slug:name>", views.cluster_fragment, name="cluster-fragment"),
    path("cluster/<str:name>/", views.node_detail, name="node-detail"),
    path("cluster/<str:name>/fragments/<slug:fragment>", views.node_fragment, name="node-fragment"),
    path("cluster/<str:name>/figures/<slug:figure>", views.node_figure, name="node-figure"),
    path("cluster/<str:name>/<slug:verb>", views.node_action, name="node-action"),
    path("rounds/", views.rounds, name="rounds"),
    path("rounds/plannings/<int:number>/", views.planning_detail, name="planning-detail"),
    path("rounds/metrics/", views.rounds_metrics, name="rounds-metrics"),
    path("rounds/metrics/figures/<slug:name>", views.rounds_figure, name="rounds-figure"),
    path("account/tokens/", views.tokens, name="tokens"),
    path("account/tokens/<int:token_id>/revoke", views.token_revoke, name="token-revoke"),
    path("search", views.search_page, name="search"),
    path("login", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
]

urlpatterns = page_urls + job_urls
