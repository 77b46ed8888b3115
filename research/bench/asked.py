"""The requests of `./berth bench pages`: each page, fragment, figure and REST answer, by the name of its route.

The routes are the URL resolver's, and `research/examples.py` fills them. `MORE` has the ways that cost more at size,
`LEFT_OUT` the reasons for a route that is not measured. Actions and files are left out, but for `FILES`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from research.examples import Example, Route, routes

if TYPE_CHECKING:
    from collections.abc import Mapping

TENANT, OPERATOR = "tenant", "operator"
BOTH = (TENANT, OPERATOR)


@dataclass(frozen=True)
class Asked:
    """One request: `name` in the figures, the path, its casts, by session or by token, and the status it must have.

    `most_queries`: the registry's limit for a page; None for others.
    """

    name: str
    path: str
    casts: tuple[str, ...] = BOTH
    by_token: bool = False
    most_queries: int | None = None
    statuses: tuple[int, ...] = (200,)


MORE: dict[str, dict[str, str]] = {
    "overview": {" 24 h": "view=cluster&h=24"},
    "home-part": {" of a tenant": "view={tenant}"},
    "cluster-rows": {" page 5": "by=type&group={gpu_type}&page=5"},
    "rounds": {" page 50": "page=50"},
    "planning-detail": {" page 100": "page=100"},
    "help": {" none found": "q=zebrafish"},
    "search": {
        " many found": "q={name}",
        " none found": "q=no-such-thing",
        " three letters": "q=ber",
        " two letters": "q=zq",
    },
    "job-list": {
        " page 100": "page={page_100}",
        " page 1000": "page={page_1000}",
        " last page": "page={page_last}",
        " by reason": "state=PENDING&reason=outside-window",
        " ended": "state=COMPLETED",
        " by start": "sort=-start",
        " by tenant": "sort=tenant",
        " by owner, page 100": "sort=-owner&page={page_100}",
        " by end": "sort=-end",
        " mine": "owner=mine",
        " by waiting": "sort=-waited",
        " text": "q={name}",
        " text, none found": "q=no-such-thing",
        " by node": "node={node}",
        " by owner": "owner=member-1",
        " by label": "label=team%3D1",
        " by label's name": "label=team",
        " by label, one found": "label=run%3D7",
        " by category": "category=cv",
        " submitted within 7 d": "when=submitted&within=7d",
        " submitted within 24 h": "when=submitted&within=24h",
        " started within 7 d": "when=started&within=7d",
        " ended within 7 d": "when=ended&within=7d",
        " ended within 24 h, label": "when=ended&within=24h&label=team%3D1",
    },
    "api-jobs": {
        " 500 a page": "page_size=500",
        " page 100": "page={page_100}",
        " page 1000": "page={page_1000}",
        " state": "state=RUNNING,PENDING",
        " name": "name={name}",
        " name, none found": "name=no-such-thing",
        " label": "label=run%3D7",
        " label of many": "label=team%3D1",
        " node": "node={node}",
        " category": "category=cv",
        " ended since": "ended_since=2020-01-01T00:00:00Z",
        " submitted since": "since=2020-01-01T00:00:00Z",
        " by submission": "ordering=submitted_at",
        " tasks": "array={array}",
    },
    "api-nodes": {" 500 a page": "page_size=500"},
    "api-rounds": {" 500 a page": "page_size=500"},
    "api-metrics": {" 7 days": "range=7d"},
}
"""Route -> label -> a query that costs more, or costs otherwise, at size."""
OTHERS = {"metrics": "", "metrics-gpus": "", "admin:index": ""}
"""Neither pages nor REST, and the lists of the console."""
FILES = ("help-image", "job-log-download")
"""Files of a set length; others are as long as a job made them."""
PLANS = "plans: `bench round` measures that"
ONE_TEMPLATE = "one template, by its name; it costs the same whatever else there is"
ONE_TENANT = "a few rows of one tenant"
LEFT_OUT = {
    **dict.fromkeys(("job-waiting", "api-job-offers", "home-offer"), PLANS),
    **dict.fromkeys(("api-template", "api-template-versions", "template-detail", "template-use"), ONE_TEMPLATE),
    **dict.fromkeys(("tenant", "api-members", "api-invitations"), ONE_TENANT),
    "api-upload": "the files of one job",
    "login": "hashes a password, slowly on purpose",
    "api-schema": "the same for every size; made once a version",
}


def asked_all(names: Mapping[str, Any]) -> list[Asked]:
    """Return every request, filled with these names of rows; KeyError for an argument that has no example."""
    return [asked for route in routes() for asked in _asked(route, names)]


def is_measured(route: Route) -> bool:
    if route.name in OTHERS or route.name.endswith("_changelist"):
        return True
    is_long = route.page is not None and route.page.kind == "file" and route.name not in FILES
    return route.is_read and not is_long and route.name not in LEFT_OUT


def _asked(route: Route, names: Mapping[str, Any]) -> list[Asked]:
    if not is_measured(route):
        return []
    if not route.is_read:
        path = route.path(Example(query=OTHERS.get(route.name, ""))).format_map(names)
        return [Asked(route.name, path, (OPERATOR,), by_token=not route.name.startswith("admin:"))]
    shared, casts = route.examples(), {"operators": (OPERATOR,), "owner": (TENANT,)}
    by_args = {tuple(each.args.items()): each for each in reversed(shared)}
    more = [
        replace(each, label=each.label + label, query=query, readers=route.readers)
        for each in by_args.values()
        for label, query in MORE.get(route.name, {}).items()
    ]
    return [
        Asked(
            route.name + each.label,
            route.path(each).format_map(names),
            casts.get(each.readers or "", BOTH),
            route.is_rest,
            route.page.queries if route.page else None,
        )
        for each in shared + more
    ]
