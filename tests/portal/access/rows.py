"""The table of the walk: each route and method, with the status that each of the six casts gets.

Rows of reads are made from the registry of pages, which says the readers, and from `research/examples.py`. Forms, refusals
and other ways stand here. Braces in arguments, queries and bodies take names from
`World.names`. A method that a route has no row for must answer 405. Expectations stand in the order owner, teammate,
outsider, operator, anonymous, node.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from research.examples import routes
from research.workloads.partitions import DESCRIPTION, EXCHANGE

SIGN_IN = 302  # for who is not signed in: the walk checks that it leads to the sign-in page

PAGE = (200, 200, 200, 200, SIGN_IN, SIGN_IN)
OWN_PAGE = (200, 200, 404, 200, SIGN_IN, SIGN_IN)
MINE_PAGE = (200, 404, 404, 404, SIGN_IN, SIGN_IN)
MISSING_PAGE = (404, 404, 404, 404, SIGN_IN, SIGN_IN)
ACT_PAGE = (302, 302, 404, 302, SIGN_IN, SIGN_IN)
OPERATE_PAGE = (403, 403, 403, 302, SIGN_IN, SIGN_IN)
LOOK_PAGE = (404, 404, 404, 200, SIGN_IN, SIGN_IN)
API = (200, 200, 200, 200, 401, 401)
OWN_API = (200, 200, 404, 200, 401, 401)
MISSING_API = (404, 404, 404, 404, 401, 401)
MINE_API = (200, 404, 404, 404, 401, 401)
MANAGE_API = (403, 403, 404, 404, 401, 401)
OPERATE_API = (403, 403, 403, 200, 401, 401)
AGENT = (401, 401, 401, 401, 401, 200)
OPEN = (200,) * 6


@dataclass(frozen=True)
class Row:
    route: str
    method: str
    expected: tuple[int, ...]
    args: dict[str, Any] = field(default_factory=dict)
    query: str = ""
    body: Any = None
    door: str = "page"


def _get(route: str, expected: tuple[int, ...], *, query: str = "", **args: Any) -> Row:
    return Row(route, "GET", expected, args, query)


def _post(route: str, expected: tuple[int, ...], form: list[tuple[str, str]], **args: Any) -> Row:
    return Row(route, "POST", expected, args, body=form)


def _each(
    route: str, expected: tuple[int, ...], argument: str, values: str, *, query: str = "", **args: Any
) -> list[Row]:
    return [_get(route, expected, query=query, **{argument: value}, **args) for value in values.split()]


JOB = "{running}"
PLAIN = {"name": "new", "job": {"command": "true"}}
JOB_FORM = [("command", "true"), ("name", "new"), ("gpu_mode", "set"), ("gpus", "1"), ("tenant", "zebra-lab")]

ZEBRA = {"name": "zebra-lab"}
TEMPLATE = {"number": "{template_number}"}
SHARED = {"number": "{shared_template}"}
SIMULATION = [
    ("name", "again"),
    ("tenant", "zebra-lab"),
    ("source", "generator:hops-64"),
    ("jobs", "3"),
    ("cluster", "own"),
    ("policies", "fifo"),
]

READERS = {
    "page": {"signed in": PAGE, "tenant": OWN_PAGE, "owner": MINE_PAGE, "operators": LOOK_PAGE},
    "api": {"signed in": API, "tenant": OWN_API, "owner": MINE_API, "operators": OPERATE_API},
}
OTHERWISE = {
    "home-offer": (204, 204, 204, 204, SIGN_IN, SIGN_IN),
    "api-schema": OPEN,
    "api-docs": OPEN,
    "api-invitations": (403, 403, 404, 200, 401, 401),
}
"""Reads with another status, or by others than the readers."""


def _read(door: str) -> list[Row]:
    """Return a row for each example of each read by this door, but for pages of everyone."""
    return [
        Row(
            route.name,
            "GET",
            OTHERWISE.get(route.name) or READERS[door][example.readers],
            dict(example.args),
            example.query,
            door=door,
        )
        for route in routes()
        if route.is_read and route.is_rest == (door == "api") and route.readers != "everyone"
        for example in route.examples()
    ]


PAGES = [
    *_read("page"),
    _get("template-list", PAGE, query="q=zebra"),
    _get("template-detail", OWN_PAGE, query="with=1", **TEMPLATE),
    _get("template-detail", PAGE, **SHARED),
    _get("template-detail", MISSING_PAGE, number=987654),
    _get("template-use", MINE_PAGE, query="saved={saved}", **TEMPLATE),
    _get("template-use", OWN_PAGE, query="from={running}", **SHARED),
    _get("template-use", PAGE, **SHARED),
    _post("template-use", ACT_PAGE, [("p_word", "hop"), ("act", "submit")], **TEMPLATE),
    _post("template-use", ACT_PAGE, [("p_word", "hop"), ("act", "save"), ("save_as", "mine")], **TEMPLATE),
    _post("template-plan", OWN_PAGE, [("p_word", "hop")], **TEMPLATE),
    _get("template-new", OWN_PAGE, query="of={template_number}"),
    _post(
        "template-new",
        (302, 302, 400, 302, SIGN_IN, SIGN_IN),
        [("text", "name: new\njob:\n  command: ls\n"), ("whose", "zebra-lab")],
    ),
    _post("template-delete", (403, 403, 404, 302, SIGN_IN, SIGN_IN), [], **TEMPLATE),
    _post("template-delete", (403, 403, 403, 302, SIGN_IN, SIGN_IN), [], **SHARED),
    _post("saved-delete", (302, 404, 404, 404, SIGN_IN, SIGN_IN), [], number="{saved}"),
    _post("form-save", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("command", "true"), ("gpus", "1"), ("save_as", "x")]),
    _get("job-submit", (404, 404, 404, 404, SIGN_IN, SIGN_IN), query="saved=987654"),
    *_each("home-part", MISSING_PAGE, "name", "nothing", query="view=mine"),
    _get("home-offer", (204, 204, 204, 204, SIGN_IN, SIGN_IN)),
    _post("home-dismiss", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("what", "end"), ("jobs", "1,2")]),
    _post("home-dismiss", (400, 400, 400, 400, SIGN_IN, SIGN_IN), [("what", "nothing")]),
    *_each("overview-fragment", MISSING_PAGE, "name", "nothing"),
    _get("queue", MISSING_PAGE, query="fragment=nothing"),
    _get("queue", PAGE, query="whose=mine"),
    _get("queue", (400, 400, 400, 400, SIGN_IN, SIGN_IN), query="whose=none"),
    _get("queue", (400, 400, 400, 400, SIGN_IN, SIGN_IN), query="page=none"),
    *_each("cluster-fragment", MISSING_PAGE, "name", "nothing"),
    _get("engine-detail", MISSING_PAGE, number="{missing}"),
    _get("engine-fragment", MISSING_PAGE, number="{engine_number}", fragment="nothing"),
    _get("cluster-board", (400, 400, 400, 400, SIGN_IN, SIGN_IN), query="h=2"),
    _get("cluster-rows", MISSING_PAGE, query="by=type&group=nothing"),
    _get("cluster-rows", (400, 400, 400, 400, SIGN_IN, SIGN_IN), query="by=colour"),
    _get("node-detail", MISSING_PAGE, name="nowhere"),
    *_each("node-fragment", MISSING_PAGE, "fragment", "nothing", name="big"),
    *_each("node-figure", MISSING_PAGE, "figure", "nothing", name="big"),
    _post("console-backup", (404, 404, 404, 302, SIGN_IN, SIGN_IN), []),
    _post("node-action", OPERATE_PAGE, [("reason", "dust")], name="big", verb="drain"),
    _post("node-action", OPERATE_PAGE, [], name="big", verb="resume"),
    _post("node-action", OPERATE_PAGE, [("index", "0"), ("reason", "dust")], name="big", verb="gpu-cordon"),
    _post("node-action", OPERATE_PAGE, [("resume", "0")], name="big", verb="gpu-resume"),
    _post("node-action", OPERATE_PAGE, [("reason", "gone")], name="silent", verb="dead"),
    _post("node-action", (403, 403, 403, 404, SIGN_IN, SIGN_IN), [("reason", "x")], name="big", verb="nothing"),
    _post("node-action", (403, 403, 403, 404, SIGN_IN, SIGN_IN), [("reason", "x")], name="nowhere", verb="drain"),
    _get("sharing-curve", MISSING_PAGE, number="{missing}"),
    _post("sharing-train", (404, 404, 404, 302, SIGN_IN, SIGN_IN), []),
    _post("sharing-decide", MISSING_PAGE, [], number="{missing}", verb="accept"),
    *_each("rounds-figure", MISSING_PAGE, "name", "nothing"),
    _get("planning-detail", MISSING_PAGE, number="{missing}"),
    _post("account", (400, 400, 400, 400, SIGN_IN, SIGN_IN), [("old", "wrong"), ("new", "a"), ("again", "a")]),
    _post("second-factor", (400, 400, 400, 400, SIGN_IN, SIGN_IN), [("act", "confirm"), ("code", "000000")]),
    _post("session-end", MISSING_PAGE, [], number="{missing}"),
    _post("sessions-end", (302, 302, 302, 302, SIGN_IN, SIGN_IN), []),
    _get("tenant", MISSING_PAGE, name="nothing"),
    _get("tenant-usage", OWN_PAGE, name="zebra-lab", query="range=before"),
    _get("tenant-usage", (400, 400, 404, 400, SIGN_IN, SIGN_IN), name="zebra-lab", query="range=1d"),
    _get("tenant-usage", MISSING_PAGE, name="nothing"),
    _post(
        "tenant-member",
        (403, 403, 404, 404, SIGN_IN, SIGN_IN),
        [("role", "viewer")],
        name="zebra-lab",
        username="nobody",
    ),
    _post(
        "tenant-secrets",
        (302, 302, 404, 302, SIGN_IN, SIGN_IN),
        [("secret", "new"), ("value", "zebra-value")],
        name="zebra-lab",
    ),
    _post("tenant-secret-remove", (403, 403, 404, 302, SIGN_IN, SIGN_IN), [], name="zebra-lab", secret="{secret}"),
    _post(
        "tenant-invite", (403, 403, 404, 201, SIGN_IN, SIGN_IN), [("role", "member"), ("days", "7")], name="zebra-lab"
    ),
    _post("tenant-invitation-end", (403, 403, 404, 404, SIGN_IN, SIGN_IN), [], name="zebra-lab", number="{missing}"),
    _post("time-zone", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("time_zone", "Asia/Tokyo")]),
    _post("notifications", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("mail", "failed"), ("waits_h", "2")]),
    _post(
        "account-webhooks", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("url", "http://127.0.0.1/"), ("events", "ended")]
    ),
    _post("account-webhook", MISSING_PAGE, [], number="{missing}", verb="test"),
    _post(
        "tenant-webhooks",
        (403, 403, 404, 201, SIGN_IN, SIGN_IN),
        [("url", "https://hooks.example/"), ("events", "ended")],
        name="zebra-lab",
    ),
    _post(
        "tenant-webhook", (403, 403, 404, 404, SIGN_IN, SIGN_IN), [], name="zebra-lab", number="{missing}", verb="test"
    ),
    _get("invitation", MISSING_PAGE, secret="nothing"),
    _post("invitation", MISSING_PAGE, [], secret="nothing"),
    _post("tokens", (201, 201, 201, 201, SIGN_IN, SIGN_IN), [("name", "ci"), ("scopes", "jobs:read")]),
    _post(
        "tokens",
        (201, 201, 400, 201, SIGN_IN, SIGN_IN),
        [("name", "ci"), ("scopes", "jobs:read"), ("tenant", "zebra-lab")],
    ),
    _post("tokens", (400, 400, 400, 201, SIGN_IN, SIGN_IN), [("name", "ci"), ("scopes", "operator")]),
    _post("token-revoke", (302, 404, 404, 404, SIGN_IN, SIGN_IN), [], token_id="{token}"),
    _get("help", PAGE, query="q=zebra"),
    _get("help-guide", PAGE, name="decisions/0001-triggers-after-migrate"),
    _get("help-guide", MISSING_PAGE, name="../portal/settings.py"),
    _get("help-image", MISSING_PAGE, name="words.md"),
    _get("search", PAGE, query="q=zebra"),
    _get("search", (302, 302, 200, 302, SIGN_IN, SIGN_IN), query="q={running}"),
    _get("login", (302, 302, 302, 302, 200, 200)),
    _post("login", (302, 302, 302, 302, 302, 302), [("username", "outsider"), ("password", "correct+horse+battery")]),
    _post("login", (302, 302, 302, 302, 200, 200), [("username", "outsider"), ("password", "wrong")]),
    _post("logout", (302, 302, 302, 302, 302, 302), []),
    _get("job-list", PAGE, query="node=n1&label=team%3Da&category=cv&owner=mine&when=ended&within=7d"),
    _get("job-list", MISSING_PAGE, query="view={missing}"),
    _post("job-columns", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("column", "state"), ("column", "job")]),
    _post("job-view-save", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("name", "mine"), ("next", "?state=RUNNING")]),
    _post("job-view-delete", MISSING_PAGE, [], number="{missing}"),
    _get("job-compare", OWN_PAGE, query=f"job={JOB}&job={{array}}"),
    _get("job-compare-figure", MISSING_PAGE, query=f"job={JOB}&curve=loss", name="curve"),
    _post("job-submit", (302, 302, 400, 302, SIGN_IN, SIGN_IN), JOB_FORM),
    _post("job-from-script", PAGE, [("script", "#!/bin/sh\n#SBATCH -n 1\ntrue\n")]),
    _post("job-dry-run", PAGE, JOB_FORM),
    _post("job-alternatives", PAGE, JOB_FORM),
    _post("job-bulk", (302, 302, 302, 302, SIGN_IN, SIGN_IN), [("action", "cancel"), ("job", JOB)]),
    _get("job-detail", OWN_PAGE, number="{array}_1"),
    _get("job-detail", MISSING_PAGE, number="{missing}"),
    _get("job-sent", MISSING_PAGE, number=JOB, query="path=train.py"),
    _get("job-artefacts-figure", MISSING_PAGE, number=JOB, query="name=loss"),
    _get("job-artefacts-picture", MISSING_PAGE, number=JOB, query="path=a.png"),
    _get("job-artefacts-download", MISSING_PAGE, number=JOB),
    _post("job-artefacts-remove", MISSING_PAGE, [("path", "a")], number=JOB),
    _post("job-offer", ACT_PAGE, [("change", "size"), ("value", "1")], number="{waiting}"),
    *_each("job-figure", MISSING_PAGE, "name", "nothing", number=JOB),
    *_each("job-fragment", MISSING_PAGE, "name", "nothing array tasks", number=JOB),
    _post("job-action", ACT_PAGE, [], number=JOB, verb="cancel"),
    _post("job-action", ACT_PAGE, [], number=JOB, verb="requeue"),
    _post("job-action", ACT_PAGE, [], number="{failed}", verb="retry"),
    _post("job-action", ACT_PAGE, [], number="{waiting}", verb="hold"),
    _post("job-action", ACT_PAGE, [], number="{held}", verb="release"),
    _get("job-terminal", OWN_PAGE, query="rank=1", number="{waiting}"),
    _get("job-terminal", MISSING_PAGE, number=987654),
    _get("job-port", (302, 302, 404, 302, SIGN_IN, SIGN_IN), number=JOB, port=8888),
    _get("job-port", (409, 409, 404, 409, SIGN_IN, SIGN_IN), number="{waiting}", port=8888),
    _get("job-port", (400, 400, 404, 400, SIGN_IN, SIGN_IN), number=JOB, port=65_536),
    _post("job-keep", ACT_PAGE, [], number=JOB),
    _post("job-ask", (404, 404, 404, 302, SIGN_IN, SIGN_IN), [("text", "Do you need it?")], number=JOB),
    _post("job-mend", ACT_PAGE, [], number="{failed}"),
    _post("job-extend", ACT_PAGE, [("by", "60")], number=JOB),
    _post("job-action", MISSING_PAGE, [], number=JOB, verb="nothing"),
    _get("laboratory", MISSING_PAGE, query="fragment=nothing"),
    _get("laboratory-new", MISSING_PAGE, query="from={missing}"),
    _get("laboratory-new", MISSING_PAGE, query="from=x"),
    _get("laboratory-new", MINE_PAGE, query="trace={trace}"),
    _get("laboratory-new", MISSING_PAGE, query="trace={missing}"),
    _post("laboratory-new", (302, 302, 400, 302, SIGN_IN, SIGN_IN), SIMULATION),
    _post(
        "laboratory-new",
        (302, 404, 400, 404, SIGN_IN, SIGN_IN),
        [*SIMULATION[:2], ("source", "trace:{trace}"), ("cluster", "here"), ("policies", "fifo")],
    ),
    _get("laboratory-detail", OWN_PAGE, number="{shared}"),
    _get("laboratory-detail", OWN_PAGE, number="{shared}", query="fragment=progress"),
    _get("laboratory-detail", OWN_PAGE, number="{shared}", query="fragment=state"),
    _get("laboratory-detail", MISSING_PAGE, number="{missing}"),
    _get("laboratory-answer", OWN_PAGE, number="{shared}"),
    *_each("laboratory-figure", OWN_PAGE, "name", "held", number="{shared}"),
    *_each("laboratory-figure", MISSING_PAGE, "name", "nothing", number="{shared}"),
    _get("laboratory-compare", (400, 400, 400, 400, SIGN_IN, SIGN_IN), query="run={shared}"),
    _post("laboratory-act", (302, 404, 404, 404, SIGN_IN, SIGN_IN), [], number="{queued}", verb="cancel"),
    _post(
        "laboratory-act",
        (302, 404, 404, 404, SIGN_IN, SIGN_IN),
        [("shared_with", "owner")],
        number="{shared}",
        verb="share",
    ),
    _post("laboratory-act", (302, 404, 404, 404, SIGN_IN, SIGN_IN), [], number="{shared}", verb="delete"),
    _post("laboratory-act", MISSING_PAGE, [], number="{shared}", verb="nothing"),
    _post("laboratory-traces", (400, 400, 400, 400, SIGN_IN, SIGN_IN), [("tenant", "zebra-lab")]),
    _post(
        "laboratory-trace-act",
        (302, 404, 404, 404, SIGN_IN, SIGN_IN),
        [("shared_with", "tenant")],
        number="{trace}",
        verb="share",
    ),
    _post("laboratory-trace-act", MISSING_PAGE, [], number="{trace}", verb="nothing"),
]


def _api(route: str, method: str, expected: tuple[int, ...], body: Any = None, query: str = "", **args: Any) -> Row:
    return Row(route, method, expected, args, query, body, door="api")


ASKED = {"name": "again", "generator": "hops-64", "jobs": 3, "cluster": "own", "policies": ["fifo"]}

UPLOADED = {"path": "zebra-name.py", "size_bytes": 10, "sha256": hashlib.sha256(b"zebra-name").hexdigest()}

REST = [
    *_read("api"),
    _api("api-schema", "GET", OPEN),
    _api("api-docs", "GET", OPEN),
    _api("api-jobs", "POST", (201, 201, 400, 201, 401, 401), {"command": "true", "tenant": "zebra-lab"}),
    _api("api-jobs", "POST", (400, 400, 201, 201, 401, 401), {"command": "true", "tenant": "speech"}),
    _api("api-jobs-plan", "POST", (200, 200, 400, 200, 401, 401), {"command": "true", "tenant": "zebra-lab"}),
    _api("api-jobs-plan", "POST", (400, 400, 200, 200, 401, 401), {"command": "true", "tenant": "speech"}),
    _api("api-jobs-import", "POST", (200, 200, 200, 200, 401, 401), {"text": "#!/bin/sh\n#SBATCH -n 1\ntrue\n"}),
    _api("api-job", "GET", OWN_API, number="{array}_1"),
    _api("api-job", "GET", MISSING_API, number="{missing}"),
    _api("api-job", "PATCH", OWN_API, {"priority": -1}, number="{waiting}"),
    _api("api-job", "PATCH", OWN_API, {"name": "new", "labels": {"a": "b"}}, number="{waiting}"),
    _api("api-job-offers", "POST", (409, 409, 404, 409, 401, 401), {"change": "size", "value": 1}, number=JOB),
    _api("api-job-artefacts", "DELETE", MISSING_API, number=JOB),
    _api("api-job-artefacts-tar", "GET", MISSING_API, number=JOB),
    _api("api-job-artefact", "GET", MISSING_API, number=JOB, path="a/b"),
    _api("api-job-artefact", "DELETE", MISSING_API, number=JOB, path="a/b"),
    _api("api-job-cancel", "POST", OWN_API, number=JOB),
    _api("api-job-hold", "POST", OWN_API, number="{waiting}"),
    _api("api-job-release", "POST", OWN_API, number="{held}"),
    _api("api-job-retry", "POST", OWN_API, number="{failed}"),
    _api("api-job-requeue", "POST", OWN_API, number=JOB),
    _api("api-job-keep", "POST", (409, 409, 404, 409, 401, 401), number=JOB),
    _api(
        "api-secrets",
        "POST",
        (201, 201, 400, 201, 401, 401),
        {"name": "new", "value": "zebra-value", "tenant": "zebra-lab"},
    ),
    _api("api-secret", "DELETE", (403, 403, 403, 400, 401, 401), name="{secret}"),
    _api("api-secret", "DELETE", (403, 403, 403, 400, 401, 401), name="none"),
    _api("api-usage", "GET", MISSING_API, name="nothing"),
    _api("api-members", "GET", MISSING_API, name="nothing"),
    _api("api-member", "PATCH", MANAGE_API, {"role": "viewer"}, username="nobody", **ZEBRA),
    _api("api-member", "PATCH", (403, 403, 404, 200, 401, 401), {"role": "viewer"}, username="zebra.owner", **ZEBRA),
    _api("api-member", "DELETE", (403, 403, 404, 204, 401, 401), username="zebra.teammate", **ZEBRA),
    _api("api-invitations", "GET", (403, 403, 404, 200, 401, 401), **ZEBRA),
    _api("api-invitations", "POST", (403, 403, 404, 201, 401, 401), {"role": "member"}, **ZEBRA),
    _api("api-invitation", "DELETE", MANAGE_API, number="{missing}", **ZEBRA),
    _api("api-templates", "POST", (201, 201, 400, 201, 401, 401), {"document": PLAIN, "tenant": "zebra-lab"}),
    _api("api-templates", "POST", (403, 403, 403, 201, 401, 401), {"document": PLAIN, "operators": True}),
    _api("api-template", "GET", API, name="for-all"),
    _api("api-template", "GET", MISSING_API, name="none"),
    _api("api-template", "DELETE", (403, 403, 404, 204, 401, 401), name="{template}"),
    _api("api-template", "DELETE", (403, 403, 403, 204, 401, 401), name="for-all"),
    _api("api-template-submit", "POST", (201, 201, 404, 201, 401, 401), {"values": {"word": "hop"}}, name="{template}"),
    _api(
        "api-template-submit",
        "POST",
        (201, 201, 400, 201, 401, 401),
        {"tenant": "zebra-lab"},
        name="for-all",
    ),
    _api("api-template-plan", "POST", OWN_API, {"values": {"word": "hop"}}, name="{template}"),
    _api("api-uploads", "POST", (200, 200, 400, 200, 401, 401), {"tenant": "zebra-lab", "files": [UPLOADED]}),
    Row(
        "api-upload-content",
        "PUT",
        (200, 200, 400, 200, 401, 401),
        {"sha256": UPLOADED["sha256"]},
        query="tenant=zebra-lab",
        body=b"zebra-name",
        door="api",
    ),
    _api("api-upload", "GET", MISSING_API, digest="{missing}"),
    _api("api-upload", "DELETE", (204, 204, 404, 204, 401, 401), digest="{upload}"),
    _api("api-node", "GET", MISSING_API, name="nowhere"),
    _api("api-node-drain", "POST", OPERATE_API, {"reason": "dust"}, name="big"),
    _api("api-gpu-cordon", "POST", OPERATE_API, {"reason": "dust"}, name="big", index=0),
    _api("api-gpu-resume", "POST", OPERATE_API, name="big", index=0),
    _api("api-node-resume", "POST", OPERATE_API, name="big"),
    _api("api-node-dead", "POST", OPERATE_API, {"reason": "gone"}, name="silent"),
    _api("api-round", "GET", MISSING_API, number="{missing}"),
    _api("api-planning", "GET", MISSING_API, number="{missing}"),
    _api("api-simulations", "POST", (201, 201, 400, 201, 401, 401), ASKED | {"tenant": "zebra-lab"}),
    _api("api-simulations", "POST", (400, 400, 201, 201, 401, 401), ASKED | {"tenant": "speech"}),
    _api(
        "api-simulations",
        "POST",
        (201, 400, 400, 400, 401, 401),
        {"name": "again", "tenant": "zebra-lab", "trace": "{trace}", "cluster": "here", "policies": ["fifo"]},
    ),
    _api("api-simulation", "GET", OWN_API, number="{shared}"),
    _api("api-simulation", "GET", MISSING_API, number="{missing}"),
    _api("api-simulation", "DELETE", (204, 404, 404, 404, 401, 401), number="{shared}"),
    _api("api-simulation", "DELETE", (409, 404, 404, 404, 401, 401), number="{queued}"),
    _api("api-simulation-cancel", "POST", MINE_API, number="{queued}"),
    _api("api-simulation-cancel", "POST", (409, 404, 404, 409, 401, 401), number="{shared}"),
    _api("api-simulation-share", "POST", MINE_API, {"shared_with": "owner"}, number="{shared}"),
    _api("api-simulation-report", "GET", OWN_API, number="{shared}"),
    _api("api-simulation-report", "GET", OWN_API, number="{shared}", query="format=csv"),
    _api("api-simulation-report", "GET", (409, 404, 404, 404, 401, 401), number="{queued}"),
    Row(
        "api-traces",
        "POST",
        (201, 201, 400, 201, 401, 401),
        query="tenant=zebra-lab&name=new&format=berth-csv",
        body=b"submitted_s,tenant,gpus,duration_s\n0,zebra-lab,1,60\n",
        door="api",
    ),
    _api("api-traces-history", "POST", (201, 201, 400, 201, 401, 401), {"days": 1, "tenant": "zebra-lab"}),
    _api("api-trace", "GET", MISSING_API, number="{missing}"),
    _api("api-trace", "DELETE", (409, 404, 404, 404, 401, 401), number="{trace}"),
    _api("api-trace-share", "POST", MINE_API, {"shared_with": "tenant"}, number="{trace}"),
    _api("livez", "GET", (200,) * 6),
    _api("healthz", "GET", (503,) * 6),  # the walk has neither broker nor beat: 503 names them to anybody
    _api("metrics", "GET", OPERATE_API),
    _api("metrics-gpus", "GET", OPERATE_API),
]

INVENTORY = {
    "name": "big",
    "address": "127.0.0.1",
    "boot_id": "boot-big",
    "agent_version": "1",
    "virtual": True,
    "single_account": True,
    "trusts_tenants": True,
    "gpu_type": None,
    "gpus": [],
    "cores": 4,
    "memory_mib": 4096,
}
HOLD = {"boot_id": "boot-big", "reports": [], "holding": [{"attempt": "{attempt}", "epoch": "{epoch}", "rank": 0}]}


def _agent(route: str, method: str, expected: tuple[int, ...], body: Any = None, query: str = "", **args: Any) -> Row:
    return Row(route, method, expected, args, query, body, door="agent")


AGENTS = [
    _agent("agent-register", "POST", (401,) * 6, INVENTORY),  # only a join token registers
    _agent("agent-hello", "POST", AGENT, INVENTORY),
    _agent("agent-report", "POST", AGENT, HOLD),
    _agent("agent-leave", "POST", (401, 401, 401, 401, 401, 204), {"boot_id": "boot-big", "detail": "it ends"}),
    _agent(
        "agent-telemetry",
        "POST",
        (401, 401, 401, 401, 401, 204),
        {"boot_id": "boot-big", "start": "{now}", "period_s": 1.0, "count": 1, "gpus": {}},
    ),
    _agent("agent-records", "POST", AGENT, {"boot_id": "boot-big", "parts": []}),
    _agent("agent-logs", "POST", AGENT, b"more\n", "attempt={attempt}&epoch={epoch}&rank=0&stream=stderr&offset=0"),
    _agent("agent-logs-together", "POST", AGENT, {"pieces": []}),
    _agent(
        "agent-artefacts",
        "POST",
        AGENT,
        {
            "boot_id": "boot-big",
            "attempt": "{attempt}",
            "epoch": "{epoch}",
            "rank": 0,
            "files": [],
            "gone": [],
            "notes": None,
        },
    ),
    _agent(
        "agent-artefact-piece",
        "POST",
        (401, 401, 401, 401, 401, 409),
        b"x",
        "attempt={attempt}&epoch={epoch}&rank=0&path=a&size=1&modified_ns=1&offset=0&piece=" + "0" * 64,
    ),
    _agent("agent-spec", "GET", AGENT, attempt="{attempt}"),
    _agent("agent-secrets", "GET", AGENT, attempt="{attempt}"),
    _agent("agent-content", "GET", (401, 401, 401, 401, 401, 404), attempt="{attempt}", sha256="0" * 64),
    _agent("bridge-attach", "POST", (401,) * 6, DESCRIPTION),  # only a join token attaches
    _agent("bridge-exchange", "POST", (401,) * 6, EXCHANGE),
    _agent("bridge-history", "POST", (401,) * 6, b"x"),
]

TABLE = [*PAGES, *REST, *AGENTS]
