"""The pages' paths."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from portal.pages.dashboard import views
from portal.pages.dashboard.artefacts import views as artefact_views
from portal.pages.dashboard.help import views as help_views
from portal.pages.dashboard.home import views as home_views
from portal.pages.dashboard.jobs import saved as job_saved
from portal.pages.dashboard.jobs import views as job_views
from portal.pages.dashboard.jobs.compare import views as compare_views
from portal.pages.dashboard.jobs.running import job_extend, job_keep_running
from portal.pages.dashboard.jobs.waiting import views as waiting_views
from portal.pages.dashboard.people import hooks_and_secrets
from portal.pages.dashboard.people import usage as people_usage
from portal.pages.dashboard.people import views as people_views
from portal.pages.dashboard.queue import views as queue_views
from portal.pages.dashboard.sharing import views as sharing_views
from portal.pages.dashboard.submit import views as submit_views
from portal.pages.dashboard.templating import views as template_views
from portal.pages.dashboard.terminal.views import job_terminal
from portal.people.accounts.forms import SignInForm

artefact_urls = [
    path("jobs/<str:number>/artefacts", artefact_views.job_artefacts, name="job-artefacts"),
    path("jobs/<str:number>/artefacts/figure", artefact_views.job_artefacts_figure, name="job-artefacts-figure"),
    path("jobs/<str:number>/artefacts/picture", artefact_views.job_artefacts_picture, name="job-artefacts-picture"),
    path("jobs/<str:number>/artefacts/download", artefact_views.job_artefacts_download, name="job-artefacts-download"),
    path("jobs/<str:number>/artefacts/remove", artefact_views.job_artefacts_remove, name="job-artefacts-remove"),
    path(
        "jobs/<str:number>/artefacts/parts/<slug:name>",
        artefact_views.job_artefacts_fragment,
        name="job-artefacts-fragment",
    ),
]

job_urls = [
    path("jobs/", job_views.job_list, name="job-list"),
    path("jobs/new", submit_views.submit, name="job-submit"),
    path("jobs/new/script", submit_views.from_script, name="job-from-script"),
    path("jobs/new/save", submit_views.form_save, name="form-save"),
    path("jobs/plan", submit_views.dry_run, name="job-dry-run"),
    path("jobs/bulk", job_views.job_bulk, name="job-bulk"),
    path("jobs/columns", job_saved.job_columns, name="job-columns"),
    path("jobs/views", job_saved.job_view_save, name="job-view-save"),
    path("jobs/views/<str:number>/delete", job_saved.job_view_delete, name="job-view-delete"),
    path("jobs/csv", job_views.job_csv, name="job-csv"),
    path("jobs/compare", compare_views.job_compare, name="job-compare"),
    path("jobs/compare/figures/<slug:name>", compare_views.job_compare_figure, name="job-compare-figure"),
    path("jobs/<str:number>/", job_views.job_detail, name="job-detail"),
    path("jobs/<str:number>/tasks", job_views.job_tasks, name="job-tasks"),
    path("jobs/<str:number>/log", job_views.job_log, name="job-log"),
    path("jobs/<str:number>/log/download", job_views.job_log_download, name="job-log-download"),
    path("jobs/<str:number>/explain.json", job_views.job_explain, name="job-explain"),
    path("jobs/<str:number>/figures/<str:name>", job_views.job_figure, name="job-figure"),
    path("jobs/<str:number>/fragments/<str:name>", job_views.job_fragment, name="job-fragment"),
    path("jobs/<str:number>/waiting", waiting_views.job_waiting, name="job-waiting"),
    path("jobs/<str:number>/offer", waiting_views.job_offer, name="job-offer"),
    path("jobs/<str:number>/what-if", waiting_views.job_what_if, name="job-what-if"),
    path("jobs/<str:number>/extend", job_extend, name="job-extend"),
    path("jobs/<str:number>/keep", job_keep_running, name="job-keep"),
    path("jobs/<str:number>/terminal", job_terminal, name="job-terminal"),
    *artefact_urls,
    path("jobs/<str:number>/<str:verb>", job_views.job_action, name="job-action"),
]

page_urls = [
    path("", home_views.overview_page, name="overview"),
    path("home/parts/<slug:name>", home_views.home_part, name="home-part"),
    path("home/offer", home_views.home_offer, name="home-offer"),
    path("home/dismiss", home_views.home_dismiss, name="home-dismiss"),
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
    path("sharing/", sharing_views.sharing_page, name="sharing"),
    path("sharing/figures/use", sharing_views.sharing_figure, name="sharing-figure"),
    path("sharing/proposals/new", sharing_views.sharing_train, name="sharing-train"),
    path("sharing/proposals/<int:number>/curve", sharing_views.sharing_curve, name="sharing-curve"),
    path("sharing/proposals/<int:number>/<slug:verb>", sharing_views.sharing_decide, name="sharing-decide"),
    path("rounds/", views.rounds, name="rounds"),
    path("rounds/plannings/<int:number>/", views.planning_detail, name="planning-detail"),
    path("rounds/metrics/", views.rounds_metrics, name="rounds-metrics"),
    path("rounds/metrics/figures/<slug:name>", views.rounds_figure, name="rounds-figure"),
    path("account/", people_views.account, name="account"),
    path("account/second", people_views.second, name="second-factor"),
    path("account/sessions/<int:number>/end", people_views.sign_out_one, name="session-end"),
    path("account/sessions/end", people_views.sign_out_others, name="sessions-end"),
    path("account/time-zone", people_views.time_zone, name="time-zone"),
    path("account/notifications", hooks_and_secrets.wishes, name="notifications"),
    path("account/webhooks", hooks_and_secrets.hook_new, name="account-webhooks"),
    path("account/webhooks/<int:number>/<slug:verb>", hooks_and_secrets.hook_act, name="account-webhook"),
    path("tenants/<slug:name>/webhooks", hooks_and_secrets.hook_new, name="tenant-webhooks"),
    path("tenants/<slug:name>/webhooks/<int:number>/<slug:verb>", hooks_and_secrets.hook_act, name="tenant-webhook"),
    path("tenants/<slug:name>/secrets", hooks_and_secrets.secret_new, name="tenant-secrets"),
    path("tenants/<slug:name>/secrets/<str:secret>/remove", hooks_and_secrets.secret_end, name="tenant-secret-remove"),
    path("tenants/<slug:name>/", people_views.tenant, name="tenant"),
    path("tenants/<slug:name>/usage", people_usage.tenant_usage, name="tenant-usage"),
    path("tenants/<slug:name>/members/<str:username>", people_views.member, name="tenant-member"),
    path("tenants/<slug:name>/invite", people_views.invite, name="tenant-invite"),
    path("tenants/<slug:name>/invitations/<int:number>/end", people_views.invitation_end, name="tenant-invitation-end"),
    path("invitations/<str:secret>", people_views.invitation, name="invitation"),
    path("account/tokens/", views.tokens, name="tokens"),
    path("account/tokens/<int:token_id>/revoke", views.token_revoke, name="token-revoke"),
    path("search", views.search_page, name="search"),
    path("login", LoginView.as_view(redirect_authenticated_user=True, authentication_form=SignInForm), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
]

template_urls = [
    path("templates/", template_views.template_list, name="template-list"),
    path("templates/new", template_views.template_new, name="template-new"),
    path("templates/saved/<int:number>/delete", template_views.saved_drop, name="saved-delete"),
    path("templates/<int:number>/", template_views.template_detail, name="template-detail"),
    path("templates/<int:number>/use", template_views.template_use, name="template-use"),
    path("templates/<int:number>/plan", template_views.template_plan, name="template-plan"),
    path("templates/<int:number>/yaml", template_views.template_yaml, name="template-yaml"),
    path("templates/<int:number>/delete", template_views.template_drop, name="template-delete"),
]

help_urls = [
    path("help/", help_views.help_index, name="help"),
    path("help/images/<str:name>", help_views.help_image, name="help-image"),
    path("help/<path:name>", help_views.help_guide, name="help-guide"),
]

urlpatterns = page_urls + job_urls + template_urls + help_urls
