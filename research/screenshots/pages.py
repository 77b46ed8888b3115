"""Which pages are taken, who looks at them, and which paths of the portal are none."""

from __future__ import annotations

from dataclasses import dataclass

TENANT, OPERATOR, NOBODY = "tenant", "operator", "nobody"


@dataclass(frozen=True)
class Page:
    """`name`: the file's, too. `path`: with places such as {running}, which `seeded.Seeded.names` fills.

    `route`: the name in the URL patterns that it shows.
    """

    name: str
    path: str
    route: str
    reader: str = TENANT


PAGES = (
    Page("login", "/login", "login", NOBODY),
    Page("overview", "/?view=mine", "overview"),
    Page("overview-tenant", "/?view=vision-lab", "overview"),
    Page("overview-cluster", "/?view=cluster", "overview"),
    Page("overview-operator", "/", "overview", OPERATOR),
    Page("jobs", "/jobs/", "job-list"),
    Page("job-running", "/jobs/{running}/", "job-detail"),
    Page("job-waiting", "/jobs/{waiting}/", "job-detail"),
    Page("job-failed", "/jobs/{failed}/", "job-detail"),
    Page("job-ended", "/jobs/{ended}/", "job-detail"),
    Page("array", "/jobs/{array}/", "job-detail"),
    Page("compare", "/jobs/compare?job={running}&job={ended}&job={failed}", "job-compare"),
    Page("compare-with", "/jobs/compare?job={ended}", "job-compare"),
    Page("artefacts", "/jobs/{running}/artefacts", "job-artefacts"),
    Page("artefact", "/jobs/{running}/artefacts?path=metrics.jsonl", "job-artefacts"),
    Page("terminal", "/jobs/{running}/terminal", "job-terminal"),
    Page("submit", "/jobs/new", "job-submit"),
    Page("submit-again", "/jobs/new?from={ended}", "job-submit"),
    Page("templates", "/templates/", "template-list"),
    Page("template", "/templates/1/", "template-detail"),
    Page("template-use", "/templates/1/use", "template-use"),
    Page("template-new", "/templates/new?from={ended}", "template-new"),
    Page("queue", "/queue/", "queue"),
    Page("queue-operator", "/queue/", "queue", OPERATOR),
    Page("cluster", "/cluster/", "cluster"),
    Page("node", "/cluster/{node}/", "node-detail"),
    Page("node-operator", "/cluster/{node}/", "node-detail", OPERATOR),
    Page("rounds", "/rounds/", "rounds"),
    Page("rounds-metrics", "/rounds/metrics/", "rounds-metrics"),
    Page("planning", "/rounds/plannings/{planning}/", "planning-detail", OPERATOR),
    Page("laboratory", "/laboratory/", "laboratory"),
    Page("laboratory-new", "/laboratory/new", "laboratory-new"),
    Page("laboratory-traces", "/laboratory/traces/", "laboratory-traces"),
    Page("simulation", "/laboratory/{simulation}/", "laboratory-detail"),
    Page("laboratory-compare", "/laboratory/compare?run={simulation}&run={other}", "laboratory-compare"),
    Page("sharing", "/sharing/", "sharing", OPERATOR),
    Page("account", "/account/", "account"),
    Page("tenant", "/tenants/vision-lab/", "tenant"),
    Page("tenant-usage", "/tenants/vision-lab/usage", "tenant-usage"),
    Page("tokens", "/account/tokens/", "tokens"),
    Page("search", "/search?q=large", "search"),
    Page("help", "/help/", "help"),
    Page("help-guide", "/help/users-guide", "help-guide"),
    Page("not-found", "/nowhere", ""),
    Page("rest", "/api/v1/docs", "api-docs"),
    Page("console", "/admin/", "admin:index", OPERATOR),
    Page("console-policy", "/admin/rounds/operatorsetting/", "admin:rounds_operatorsetting_changelist", OPERATOR),
    Page("console-tenants", "/admin/tenants/tenant/", "admin:tenants_tenant_changelist", OPERATOR),
    Page("console-nodes", "/admin/cluster/node/", "admin:cluster_node_changelist", OPERATOR),
)

NOT_PAGES = {
    "logout": "an act",
    "invitation": "it needs a secret, which is shown once",
    "second-factor": "an act",
    "time-zone": "an act",
    "notifications": "an act",
    "job-columns": "an act",
    "job-keep": "an act",
    "help-image": "a picture",
    "job-csv": "a download",
    "template-yaml": "a download",
    "job-log-download": "a download",
    "job-artefacts-download": "a download",
    "job-artefacts-picture": "a picture",
}
"""Routes that answer a GET, and why no picture is taken. So are all whose names end as in `NOT_PAGES_ENDS`."""
NOT_PAGES_ENDS = tuple(
    "-fragment -figure -figures -action -act -revoke -answer -board -rows -bulk -dismiss -part -end -invite -member -offer "
    "-offers -waiting -train -curve -decide -dry-run -from-script -tasks -log -explain -what-if -remove figure "
    "-plan -delete -save -extend -webhook -webhooks -secrets".split()
)
