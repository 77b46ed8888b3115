"""What `./berth bench pages` asks for: each page, fragment, figure and REST answer, by the name of its route.

The routes are the URL resolver's. A new one must be named here, with what fills its path, or among those left out with
the reason; else the benchmark refuses to run (and a test fails). The console's lists are found by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import URLResolver, get_resolver, reverse

from research.bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TENANT, OPERATOR = "tenant", "operator"
BOTH = (TENANT, OPERATOR)
REST = ("api-", "metrics", "healthz")
"""Routes with these beginnings are asked with a token, the others with a session."""

RUNNING, WAITING, ENDED, ARRAY = ({"number": f"{{{name}}}"} for name in ("running", "waiting", "ended", "array"))
NODE = {"name": "{node}"}


@dataclass(frozen=True)
class Asked:
    """One request: `name` in the figures, the path, who asks, by session or by token, and the status it must have."""

    name: str
    path: str
    casts: tuple[str, ...] = BOTH
    by_token: bool = False
    statuses: tuple[int, ...] = (200,)


def _each(argument: str, values: str, **more: Any) -> list[tuple[str, dict[str, Any], str]]:
    return [(f" {value}", {argument: value, **more}, "") for value in values.split()]


JOB_PARTS = "header body timeline log artefacts"
ROUTES: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    "overview": [
        ("", {}, "view=cluster"),
        (" 24 h", {}, "view=cluster&h=24"),
        (" mine", {}, "view=mine"),
        (" tenant", {}, "view=tenant-1"),
    ],
    "home-part": [
        (f" {name} {view}", {"name": name}, f"view={view}")
        for name in ("needs", "jobs", "share", "changes", "cluster")
        for view in ("mine", "tenant-1")
    ],
    "overview-fragment": _each("name", "head tiles notice problems nodes next tenants rounds"),
    "figure": _each("name", "latency-ratio fragments"),
    "queue": [("", {}, ""), (" arrays", {}, "fragment=arrays")],
    "cluster": [("", {}, "")],
    "cluster-board": [("", {}, ""), (" 24 h", {}, "h=24")],
    "cluster-rows": [("", {}, "by=type&group=a"), (" page 5", {}, "by=type&group=a&page=5")],
    "cluster-fragment": _each("name", "blocks nodes events"),
    "node-detail": [("", NODE, "")],
    "node-fragment": _each("fragment", "gpus jobs card", **NODE),
    "node-figure": _each("figure", "gpu cores memory", **NODE),
    "sharing": [("", {}, "")],
    "sharing-figure": [("", {}, "")],
    "rounds": [("", {}, ""), (" table", {}, "fragment=table"), (" page 50", {}, "page=50")],
    "rounds-metrics": [("", {}, ""), (" 7 days", {}, "range=7d"), (" rounds", {}, "fragment=rounds&range=7d")],
    "rounds-figure": [
        (f" {name} {span}", {"name": name}, f"range={span}")
        for name in ("active", "queue", "latency-ratio", "fragments")
        for span in ("1h", "7d")
    ],
    "planning-detail": [("", {"number": "{planning}"}, ""), (" page 100", {"number": "{planning}"}, "page=100")],
    "tokens": [("", {}, "")],
    "tenant-usage": [("", {"name": "{tenant}"}, "range=30d")],
    "account": [("", {}, "")],
    "help": [("", {}, ""), (" found", {}, "q=window"), (" none found", {}, "q=zebrafish")],
    "help-guide": [("", {"name": "words"}, ""), (" long", {"name": "operators-guide"}, "")],
    "help-image": [("", {"name": "overview-light.png"}, "")],
    "search": [
        ("", {}, ""),
        (" many found", {}, "q={name}"),
        (" none found", {}, "q=no-such-thing"),
        (" three letters", {}, "q=ber"),
        (" two letters", {}, "q=zq"),
    ],
    "job-list": [
        ("", {}, ""),
        (" table", {}, "fragment=table"),
        (" chips", {}, "fragment=chips"),
        (" page 100", {}, "page={page_100}"),
        (" page 1000", {}, "page={page_1000}"),
        (" last page", {}, "page={page_last}"),
        (" by reason", {}, "state=PENDING&reason=outside-window"),
        (" ended", {}, "state=COMPLETED"),
        (" by start", {}, "sort=-start"),
        (" by tenant", {}, "sort=tenant"),
        (" by owner, page 100", {}, "sort=-owner&page={page_100}"),
        (" by end", {}, "sort=-end"),
        (" mine", {}, "owner=mine"),
        (" by waiting", {}, "sort=-waited"),
        (" text", {}, "q={name}"),
        (" text, none found", {}, "q=no-such-thing"),
        (" by node", {}, "node={node}"),
        (" by owner", {}, "owner=member-1"),
        (" by label", {}, "label=team%3D1"),
        (" by label's name", {}, "label=team"),
        (" by label, one found", {}, "label=run%3D7"),
        (" by category", {}, "category=cv"),
        (" submitted within 7 d", {}, "when=submitted&within=7d"),
        (" submitted within 24 h", {}, "when=submitted&within=24h"),
        (" started within 7 d", {}, "when=started&within=7d"),
        (" ended within 7 d", {}, "when=ended&within=7d"),
        (" ended within 24 h, label", {}, "when=ended&within=24h&label=team%3D1"),
    ],
    "job-compare": [("", {}, "job={running}&job={ended}&job={waiting}"), (" one", {}, "job={ended}")],
    "job-compare-figure": [
        (f" {each}", {"name": each}, "job={running}&job={ended}") for each in ("speed", "gpu", "memory")
    ],
    "job-submit": [("", {}, ""), (" again", {}, "from={ended}")],
    "template-list": [("", {}, "")],
    "template-new": [("", {}, "")],
    "job-detail": [(" waiting", WAITING, ""), (" running", RUNNING, ""), (" ended", ENDED, ""), (" array", ARRAY, "")],
    "job-tasks": [("", ARRAY, "")],
    "job-log": [("", RUNNING, "")],
    "job-log-download": [("", RUNNING, "")],
    "job-artefacts": [("", RUNNING, "")],
    "job-terminal": [("", RUNNING, "")],
    "job-artefacts-fragment": [*_each("name", "tree", **RUNNING)],
    "job-explain": [(" waiting", WAITING, ""), (" running", RUNNING, "")],
    "job-figure": [*_each("name", "gpu cores memory", **RUNNING)],
    "job-fragment": [*_each("name", JOB_PARTS, **RUNNING), (" body waiting", {"name": "body", **WAITING}, "")],
    "laboratory": [("", {}, ""), (" table", {}, "fragment=table")],
    "laboratory-new": [("", {}, "")],
    "laboratory-traces": [("", {}, "")],
    "laboratory-detail": [
        ("", {"number": "{simulation}"}, ""),
        (" state", {"number": "{simulation}"}, "fragment=state"),
    ],
    "laboratory-answer": [("", {"number": "{simulation}"}, "")],
    "laboratory-figure": _each("name", "cdf-jct-h active-rate fragments tenants", number="{simulation}"),
    "laboratory-compare": [("", {}, "run={simulation}&run={other_simulation}")],
    "laboratory-compare-figure": [(" cdf-lr", {"name": "cdf-lr"}, "run={simulation}&run={other_simulation}")],
    "api-docs": [("", {}, "")],
    "api-me": [("", {}, "")],
    "api-usage": [("", {"name": "{tenant}"}, "")],
    "api-jobs": [
        ("", {}, ""),
        (" 500 a page", {}, "page_size=500"),
        (" page 100", {}, "page={page_100}"),
        (" page 1000", {}, "page={page_1000}"),
        (" state", {}, "state=RUNNING,PENDING"),
        (" name", {}, "name={name}"),
        (" name, none found", {}, "name=no-such-thing"),
        (" label", {}, "label=run%3D7"),
        (" label of many", {}, "label=team%3D1"),
        (" node", {}, "node={node}"),
        (" category", {}, "category=cv"),
        (" ended since", {}, "ended_since=2020-01-01T00:00:00Z"),
        (" submitted since", {}, "since=2020-01-01T00:00:00Z"),
        (" by submission", {}, "ordering=submitted_at"),
        (" tasks", {}, "array={array}"),
    ],
    "api-job": [(" waiting", WAITING, ""), (" running", RUNNING, "")],
    "api-job-description": [("", RUNNING, "")],
    "api-job-logs": [("", RUNNING, "")],
    "api-job-artefacts": [("", RUNNING, "")],
    "api-job-explain": [(" waiting", WAITING, ""), (" running", RUNNING, "")],
    "api-templates": [("", {}, "")],
    "api-secrets": [("", {}, "")],
    "api-uploads": [("", {}, "")],
    "api-nodes": [("", {}, ""), (" 500 a page", {}, "page_size=500")],
    "api-node": [("", NODE, "")],
    "api-rounds": [("", {}, ""), (" 500 a page", {}, "page_size=500")],
    "api-round": [("", {"number": "{round}"}, "")],
    "api-planning": [("", {"number": "{planning}"}, "")],
    "api-metrics": [("", {}, ""), (" 7 days", {}, "range=7d")],
    "api-neighbours": [("", {}, "")],
    "api-sharing": [("", {}, "")],
    "api-sharing-decisions": [("", {}, "")],
    "api-simulations": [("", {}, "")],
    "api-simulation": [("", {"number": "{simulation}"}, "")],
    "api-simulation-report": [("", {"number": "{simulation}"}, "")],
    "api-traces": [("", {}, "")],
    "api-trace": [("", {"number": "{trace}"}, "")],
    "metrics": [("", {}, "")],
    "metrics-gpus": [("", {}, "")],
    "admin:index": [("", {}, "")],
    "admin:search": [("", {}, "s=member")],
}
MINE = ("laboratory-", "api-simulation", "api-trace")
"""What these show belongs to its owner, but for the lists."""
OPERATORS = ("admin:", "metrics", "api-neighbours", "api-sharing", "sharing")

ACTS = "changes something"
LEFT_OUT = {
    **dict.fromkeys(
        ("node-action", "token-revoke", "job-bulk", "job-action", "logout", "laboratory-act", "laboratory-trace-act"),
        ACTS,
    ),
    **dict.fromkeys(
        tuple(
            """
                api-job-cancel api-job-retry job-offer home-dismiss second-factor session-end sessions-end
                job-columns job-view-save job-view-delete
                tenant-member tenant-invite tenant-invitation-end notifications account-webhooks account-webhook
                tenant-webhooks tenant-webhook job-extend job-keep time-zone api-job-hold api-job-release api-job-keep
                api-job-requeue api-node-drain api-node-resume api-node-dead api-traces-history api-trace-share
                api-simulation-cancel api-simulation-share job-artefacts-remove api-gpu-cordon api-gpu-resume
                sharing-train sharing-decide template-delete saved-delete form-save api-secret tenant-secrets
                tenant-secret-remove
            """.split()
        ),
        ACTS,
    ),
    **dict.fromkeys(
        ("job-dry-run", "api-jobs-plan", "job-what-if", "job-waiting", "api-job-offers", "home-offer"),
        "plans: `bench round` measures that",
    ),
    **dict.fromkeys(("job-from-script", "api-jobs-import"), "reads a text of the caller's"),
    **dict.fromkeys(
        tuple(
            "api-template api-template-versions api-template-submit api-template-plan template-detail template-use "
            "template-plan template-yaml".split()
        ),
        "one template, by its name; it costs the same whatever else there is",
    ),
    **dict.fromkeys(
        ("api-job-artefact", "api-job-artefacts-tar", "job-artefacts-download", "job-artefacts-picture"),
        "a stream as long as what a job wrote",
    ),
    "job-artefacts-figure": "read from files that a job wrote, a set number of bytes of them",
    "sharing-curve": "a proposal's, and none was trained",
    **dict.fromkeys(
        ("tenant", "invitation", "api-members", "api-invitations", "api-member", "api-invitation"),
        "a few rows of one tenant",
    ),
    **dict.fromkeys(("api-upload", "api-upload-content"), "the files of one job"),
    "job-csv": "every job, as a stream",
    "login": "hashes a password, slowly on purpose",
    "livez": "a constant",
    "healthz": "asks the broker; 503 without a whole Berth",
    "api-schema": "the same for every size; made once a version",
}
LEFT_OUT_PREFIXES = {"agent-": "nodes ask, not people", "admin:": "a form or an index of the console"}


def routes_known() -> Iterator[str]:
    """Yield the name of each route, with its namespace."""
    yield from _names(get_resolver().url_patterns, "")


def _names(patterns: Any, namespace: str) -> Iterator[str]:
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from _names(each.url_patterns, f"{namespace}{each.namespace}:" if each.namespace else namespace)
        else:
            yield f"{namespace}{each.name or ''}"


def asked_all(names: Mapping[str, Any]) -> list[Asked]:
    """Return every request, filled with these names of rows; BenchError for a route that nobody thought of here."""
    found: list[Asked] = []
    for route in dict.fromkeys(routes_known()):
        ways = ROUTES.get(route) or ([("", {}, "")] if route.endswith("_changelist") else None)
        if ways is None:
            if route not in LEFT_OUT and not route.startswith(tuple(LEFT_OUT_PREFIXES)):
                raise BenchError(f"The route {route} is not known to research/bench/asked.py: name it there.")
            continue
        found += [_asked(route, suffix, arguments, query, names) for suffix, arguments, query in ways]
    return found


def _asked(route: str, suffix: str, arguments: Mapping[str, Any], query: str, names: Mapping[str, Any]) -> Asked:
    filled = {name: str(value).format_map(names) for name, value in arguments.items()}
    path = reverse(route, kwargs=filled) + (f"?{query.format_map(names)}" if query else "")
    casts: tuple[str, ...] = BOTH
    if route.startswith(OPERATORS):
        casts = (OPERATOR,)
    elif route.startswith(MINE) and route not in {
        "laboratory-traces",
        "laboratory-new",
        "api-simulations",
        "api-traces",
    }:
        casts = (TENANT,)
    return Asked(route + suffix, path, casts, by_token=route.startswith(REST))
