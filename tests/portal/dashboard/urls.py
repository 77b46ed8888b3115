"""The names the templates use, so that pages render without the views."""

from django.http import HttpResponse
from django.urls import path


def _blank(_request, **_arguments):
    return HttpResponse("")


urlpatterns = [
    path("", _blank, name="overview"),
    path("jobs/", _blank, name="job-list"),
    path("jobs/new", _blank, name="job-submit"),
    path("jobs/new/script", _blank, name="job-from-script"),
    path("jobs/plan", _blank, name="job-dry-run"),
    path("jobs/bulk", _blank, name="job-bulk"),
    path("jobs/<id>/", _blank, name="job-detail"),
    path("jobs/<id>/log", _blank, name="job-log"),
    path("jobs/<id>/log/download", _blank, name="job-log-download"),
    path("jobs/<id>/figures/<name>", _blank, name="job-figure"),
    path("jobs/<id>/fragments/<name>", _blank, name="job-fragment"),
    path("jobs/<id>/waiting", _blank, name="job-waiting"),
    path("jobs/<id>/offer", _blank, name="job-offer"),
    path("jobs/<id>/what-if", _blank, name="job-what-if"),
    path("jobs/<id>/<verb>", _blank, name="job-action"),
    path("queue/", _blank, name="queue"),
    path("help/", _blank, name="help"),
    path("help/<path:name>", _blank, name="help-guide"),
    path("cluster/", _blank, name="cluster"),
    path("cluster/board", _blank, name="cluster-board"),
    path("cluster/rows", _blank, name="cluster-rows"),
    path("cluster/fragments/<name>", _blank, name="cluster-fragment"),
    path("cluster/<name>/", _blank, name="node-detail"),
    path("cluster/<name>/fragments/<fragment>", _blank, name="node-fragment"),
    path("cluster/<name>/figures/<figure>", _blank, name="node-figure"),
    path("cluster/<name>/<verb>", _blank, name="node-action"),
    path("laboratory/", _blank, name="laboratory"),
    path("rounds/", _blank, name="rounds"),
    path("rounds/plannings/<number>/", _blank, name="planning-detail"),
    path("rounds/metrics/", _blank, name="rounds-metrics"),
    path("rounds/metrics/figures/<name>", _blank, name="rounds-figure"),
    path("fragments/overview/<name>", _blank, name="overview-fragment"),
    path("figures/<name>", _blank, name="figure"),
    path("search/", _blank, name="search"),
    path("account/tokens/", _blank, name="tokens"),
    path("account/tokens/<id>/revoke", _blank, name="token-revoke"),
    path("login", _blank, name="login"),
    path("logout", _blank, name="logout"),
    path("api/v1/docs", _blank, name="api-docs"),
]
