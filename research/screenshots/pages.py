"""The pages that are taken, and their readers: each page of the registry with each of its examples, and a few more."""

from __future__ import annotations

from dataclasses import dataclass

TENANT, OPERATOR, NOBODY = "tenant", "operator", "nobody"


@dataclass(frozen=True)
class Page:
    """`name`: the file's, too. `path`: with places such as {running}, which `seeded.Seeded.names` fills."""

    name: str
    path: str
    reader: str = TENANT


MORE = (
    Page("overview-operator", "/", OPERATOR),
    Page("artefact", "/jobs/{running}/artefacts?path=metrics.jsonl"),
    Page("queue-operator", "/queue/", OPERATOR),
    Page("node-operator", "/cluster/{node}/", OPERATOR),
    Page("planning-operator", "/rounds/plannings/{planning}/", OPERATOR),
    Page("search-found", "/search?q=large"),
    Page("not-found", "/nowhere"),
    Page("rest", "/api/v1/docs"),
    Page("console", "/admin/", OPERATOR),
    Page("console-policy", "/admin/rounds/operatorsetting/", OPERATOR),
    Page("console-tenants", "/admin/tenants/tenant/", OPERATOR),
    Page("console-nodes", "/admin/cluster/node/", OPERATOR),
)

GUIDE = (Page("first-job-form", "/jobs/new"), Page("first-job-done", "/jobs/{ended}/"))
"""The pictures of docs/first-job.md: what one sees without scrolling."""


def pages_all() -> tuple[Page, ...]:
    """Return each whole page of the registry, by the name of its route and its example, and `MORE`. Django must be set up."""
    from research.examples import routes  # it imports every view, and a look for a browser needs none

    readers = {"operators": OPERATOR, "everyone": NOBODY}
    registered = [
        Page(f"{route.name}{example.label}".replace(" ", "-"), route.path(example), readers.get(route.readers, TENANT))
        for route in routes()
        if route.page and route.page.kind == "page"
        for example in route.examples()
        if "fragment=" not in example.query
    ]

    return (*registered, *MORE)
