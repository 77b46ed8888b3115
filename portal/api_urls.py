"""Paths under /api/v1/. An id is any text without a slash: a malformed one answers as a missing one does."""

from django.urls import path
from drf_spectacular.views import SpectacularSwaggerView

from portal.engines import api as engines
from portal.foundation.api.schema import SchemaView
from portal.pages.laboratory.api import simulations, traces
from portal.people.accounts import api as accounts
from portal.people.tenants.authentication import BrowserSession
from portal.planning.estimation.api import NeighboursView
from portal.planning.offers import api as offers
from portal.planning.rounds import api as rounds
from portal.planning.rounds.read.cores import import_starts
from portal.planning.sharing import api as sharing
from portal.planning.templating import api as templating
from portal.work.artefacts.api import JobArtefactsTarView, JobArtefactsView, JobArtefactView
from portal.work.jobs.api import descriptions, jobs, me
from portal.work.jobs.api import nodes as cluster
from portal.work.jobs.api import uploads as jobs_uploads
from portal.work.jobs.api.descriptions import JobDescriptionView
from portal.work.jobs.api.logs import JobLogsView
from portal.work.jobs.api.me import MeView
from portal.work.secrets import api as secrets
from portal.work.uploads import api as uploads

DOCS = SpectacularSwaggerView.as_view(
    url_name="api-schema", template_name="api/docs.html", authentication_classes=[BrowserSession]
)

urlpatterns = [
    path("schema", SchemaView.as_view(), name="api-schema"),
    path("docs", DOCS, name="api-docs"),
    path("me", MeView.as_view(), name="api-me"),
    path("jobs", jobs.JobsView.as_view(), name="api-jobs"),
    path("jobs/plan", rounds.JobsPlanView.as_view(), name="api-jobs-plan"),
    path("jobs/import", descriptions.JobsImportView.as_view(begins_for=import_starts), name="api-jobs-import"),
    path("jobs/<str:number>", jobs.JobView.as_view(), name="api-job"),
    path("jobs/<str:number>/description", JobDescriptionView.as_view(), name="api-job-description"),
    path("jobs/<str:number>/logs", JobLogsView.as_view(), name="api-job-logs"),
    path("jobs/<str:number>/similar", rounds.JobSimilarView.as_view(), name="api-job-similar"),
    path("jobs/<str:number>/explain", offers.JobExplainView.as_view(), name="api-job-explain"),
    path("jobs/<str:number>/offers", offers.JobOffersView.as_view(), name="api-job-offers"),
    path("jobs/<str:number>/artefacts", JobArtefactsView.as_view(), name="api-job-artefacts"),
    path("jobs/<str:number>/artefacts.tar", JobArtefactsTarView.as_view(), name="api-job-artefacts-tar"),
    path("jobs/<str:number>/artefacts/<path:path>", JobArtefactView.as_view(), name="api-job-artefact"),
    path("jobs/<str:number>/cancel", jobs.JobCancelView.as_view(), name="api-job-cancel"),
    path("jobs/<str:number>/hold", jobs.JobHoldView.as_view(), name="api-job-hold"),
    path("jobs/<str:number>/release", jobs.JobReleaseView.as_view(), name="api-job-release"),
    path("jobs/<str:number>/keep", jobs.JobKeepView.as_view(), name="api-job-keep"),
    path("jobs/<str:number>/requeue", jobs.JobRequeueView.as_view(), name="api-job-requeue"),
    path("jobs/<str:number>/retry", jobs.JobRetryView.as_view(), name="api-job-retry"),
    path("templates", templating.TemplatesView.as_view(), name="api-templates"),
    path("templates/<str:name>", templating.TemplateView.as_view(), name="api-template"),
    path("templates/<str:name>/versions", templating.TemplateVersionsView.as_view(), name="api-template-versions"),
    path("templates/<str:name>/submit", templating.TemplateSubmitView.as_view(), name="api-template-submit"),
    path("templates/<str:name>/plan", templating.TemplatePlanView.as_view(), name="api-template-plan"),
    path("tenants/<str:name>/members", accounts.MembersView.as_view(), name="api-members"),
    path("tenants/<str:name>/members/<str:username>", accounts.MemberView.as_view(), name="api-member"),
    path("tenants/<str:name>/invitations", accounts.InvitationsView.as_view(), name="api-invitations"),
    path("tenants/<str:name>/invitations/<str:number>", accounts.InvitationView.as_view(), name="api-invitation"),
    path("tenants/<str:name>/usage", me.UsageView.as_view(), name="api-usage"),
    path("uploads", uploads.UploadsView.as_view(), name="api-uploads"),
    path("uploads/content/<str:sha256>", uploads.ContentView.as_view(), name="api-upload-content"),
    path("uploads/<str:digest>", jobs_uploads.UploadView.as_view(), name="api-upload"),
    path("secrets", secrets.SecretsView.as_view(), name="api-secrets"),
    path("secrets/<str:name>", secrets.SecretView.as_view(), name="api-secret"),
    path("nodes", cluster.NodesView.as_view(), name="api-nodes"),
    path("nodes/<str:name>", cluster.NodeView.as_view(), name="api-node"),
    path("nodes/<str:name>/drain", cluster.NodeDrainView.as_view(), name="api-node-drain"),
    path("nodes/<str:name>/resume", cluster.NodeResumeView.as_view(), name="api-node-resume"),
    path("nodes/<str:name>/gpus/<int:index>/cordon", cluster.GpuCordonView.as_view(), name="api-gpu-cordon"),
    path("nodes/<str:name>/gpus/<int:index>/resume", cluster.GpuResumeView.as_view(), name="api-gpu-resume"),
    path("nodes/<str:name>/dead", cluster.NodeDeadView.as_view(), name="api-node-dead"),
    path("engines", engines.EnginesView.as_view(), name="api-engines"),
    path("engines/<path:name>", engines.EngineView.as_view(), name="api-engine"),
    path("rounds", rounds.RoundsView.as_view(), name="api-rounds"),
    path("rounds/<str:number>", rounds.RoundView.as_view(), name="api-round"),
    path("plannings/<str:number>", rounds.PlanningView.as_view(), name="api-planning"),
    path("simulations", simulations.SimulationsView.as_view(), name="api-simulations"),
    path("simulations/traces", traces.TracesView.as_view(), name="api-traces"),
    path("simulations/traces/history", traces.TraceHistoryView.as_view(), name="api-traces-history"),
    path("simulations/traces/<str:number>", traces.TraceView.as_view(), name="api-trace"),
    path("simulations/traces/<str:number>/share", traces.TraceShareView.as_view(), name="api-trace-share"),
    path("simulations/<str:number>", simulations.SimulationView.as_view(), name="api-simulation"),
    path("simulations/<str:number>/cancel", simulations.SimulationCancelView.as_view(), name="api-simulation-cancel"),
    path("simulations/<str:number>/share", simulations.SimulationShareView.as_view(), name="api-simulation-share"),
    path("simulations/<str:number>/report", simulations.SimulationReportView.as_view(), name="api-simulation-report"),
    path("sharing", sharing.ComparisonView.as_view(), name="api-sharing"),
    path("sharing/decisions", sharing.DecisionsView.as_view(), name="api-sharing-decisions"),
    path("neighbours", NeighboursView.as_view(), name="api-neighbours"),
    path("metrics", rounds.MetricsView.as_view(), name="api-metrics"),
]
