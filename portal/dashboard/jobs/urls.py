"""Paths of the jobs' pages."""

from django.urls import path

from portal.dashboard.jobs import views as job_views
from portal.dashboard.submit import views as submit_views

job_urls = [
    path("jobs/", job_views.job_list, name="job-list"),
    path("jobs/new", submit_views.submit, name="job-submit"),
    path("jobs/plan", submit_views.dry_run, name="job-dry-run"),
    path("jobs/bulk", job_views.job_bulk, name="job-bulk"),
    path("jobs/csv", job_views.job_csv, name="job-csv"),
    path("jobs/<str:number>/", job_views.job_detail, name="job-detail"),
    path("jobs/<str:number>/tasks", job_views.job_tasks, name="job-tasks"),
    path("jobs/<str:number>/log", job_views.job_log, name="job-log"),
    path("jobs/<str:number>/log/download", job_views.job_log_download, name="job-log-download"),
    path("jobs/<str:number>/explain.json", job_views.job_explain, name="job-explain"),
    path("jobs/<str:number>/figures/<str:name>", job_views.job_figure, name="job-figure"),
    path("jobs/<str:number>/fragments/<str:name>", job_views.job_fragment, name="job-fragment"),
    path("jobs/<str:number>/what-if", job_views.job_what_if, name="job-what-if"),
    path("jobs/<str:number>/<str:verb>", job_views.job_action, name="job-action"),
]
