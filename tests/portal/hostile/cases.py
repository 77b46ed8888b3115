"""The corpus as requests: each text by every road that a tenant has to the parser that reads it."""

import base64
import json
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlencode

CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())
FORM, JSON, BYTES = "application/x-www-form-urlencoded", "application/json", "application/octet-stream"
GOOD = "nodes: [{cores: 4, memory_gib: 8}]"

HEADERS = {
    "berth-csv": "submitted_s,tenant,gpus,duration_s,cores,memory_mib,ran_gpus,expected_duration_s,priority,movable",
    "philly": "timestamp,duration,num_gpus,gpu_time,cluster",
    "sacct": "JobID|JobName|User|Account|Submit|Elapsed|Timelimit|State|AllocTRES",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time",
    "sia": "name,time,application,num_replicas,batch_size",
}
ROWS = {
    "berth-csv": "0,evil,1 2,60,1,0,1,60,0,no",
    "philly": "2017-10-09 07:01:55,66.0,1,66.0,a",
    "sacct": "7|train|ada|ml|2024-05-01T08:00:00|01:00:00|1-00:00:00|COMPLETED|cpu=16,gres/gpu=4,mem=64G",
    "openb": "p0,12000,16384,2,1000,,10,110,30",
    "sia": "ncf-0,90.0,bert,2,24",
    "shockwave": "LM (batch size 40)\trun\there\t-n\t1\t1000\t1\tstatic\t1\t-1.0\t100\t7",
}
JSON_ROW = {
    "submitted_s": 0,
    "tenant": "evil",
    "gpus": [1, 2],
    "duration_s": 60,
    "cores": 1,
    "memory_mib": 0,
    "ran_gpus": 1,
    "gpu_types": ["a"],
    "expected_duration_s": 60,
    "priority": 0,
    "movable": False,
    "owner": "a",
    "category": "cv",
    "model_label": "m",
    "ran_on": "a",
    "name": "n",
}
JSON_VALUES = {
    "400 digits": "9" * 400,
    "4 000 digits": "9" * 4000,
    "5 000 digits": "9" * 5000,
    "1e308": "1e308",
    "1e999": "1e999",
    "NaN": "NaN",
    "minus": "-1e12",
    "deep": "[" * 900 + "]" * 900,
    "deeper": "[" * 50_000 + "]" * 50_000,
    "object": "{}",
    "list of huge": "[" + "9" * 400 + "]",
    "many": json.dumps(list(range(1, 30_000))),
    "true": "true",
    "text": json.dumps("9" * 4000),
    "long text": json.dumps("a" * 140_000),
}


@dataclass
class Case:
    """One request. `by`: rest or page; `body`: base64; `most_s`: of processor time."""

    name: str
    path: str
    body: str
    by: str = "rest"
    method: str = "POST"
    kind: str = JSON
    headers: dict = field(default_factory=dict)

    @classmethod
    def of(cls, name, path, body, **more):
        data = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        return cls(name, path, base64.b64encode(data).decode(), **more)

    def line(self):
        return json.dumps(asdict(self))


def text_of(entry):
    """The text that a line of the corpus describes; bytes where it says `bytes`."""
    if "bytes" in entry:
        return bytes.fromhex(entry["bytes"])
    middle = entry.get("unit", "") * entry.get("times", 0)
    if "numbered" in entry:
        middle = "".join(entry["unit"] % n for n in range(entry["numbered"]))
    if "steps" in entry:
        middle = "".join(" " * n + "a:\n" for n in range(entry["steps"]))
    if "laughs" in entry:
        middle = "l0: &l0 [lol, lol]\n" + "".join(
            f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, entry["laughs"])
        )
    return (
        entry.get("before", "")
        + middle
        + entry.get("after", "")
        + entry.get("close", "") * entry.get("times", 0)
        + entry.get("end", "")
    )


def simulation(**fields):
    return {"name": "x", "generator": "hops-64", "jobs": 1, "policies": ["fifo"], **fields}


def form(**fields):
    typed = {
        "name": "x",
        "source": "generator:hops-64",
        "jobs": "1",
        "cluster": "described",
        "description": GOOD,
        "policies": "fifo",
        "seed": "1",
    }
    return urlencode(typed | fields)


def descriptions():
    for entry in CORPUS["descriptions"]:
        text = text_of(entry)
        asked = json.dumps(simulation(cluster="described", description=text))
        yield Case.of(f"description by REST: {entry['name']}", "/api/v1/simulations", asked)
        yield Case.of(
            f"description by form: {entry['name']}", "/laboratory/new", form(description=text), by="page", kind=FORM
        )
    for entry in CORPUS["objects"]:
        asked = json.dumps(simulation(description=0)).replace('"description": 0', f'"description": {text_of(entry)}')
        yield Case.of(f"description as object: {entry['name']}", "/api/v1/simulations", asked)


def upload(name, form_name, content):
    path = f"/api/v1/simulations/traces?name=x&format={form_name}"
    return Case.of(f"{form_name} by REST: {name}", path, content, kind=BYTES)


def form_upload(name, form_name, content):
    content = content if isinstance(content, bytes) else content.encode()
    parts = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in {"name": "x", "format": form_name, "origin": "upload"}.items()
    ).encode()
    parts += b'--b\r\nContent-Disposition: form-data; name="file"; filename="t"\r\n\r\n' + content + b"\r\n--b--\r\n"
    return Case.of(
        f"{form_name} by form: {name}", "/laboratory/traces/", parts, by="page", kind="multipart/form-data; boundary=b"
    )


def traces():
    yield from _whole_files()
    yield from _cells()
    for column in JSON_ROW:
        for name, value in JSON_VALUES.items():
            row = json.dumps(JSON_ROW | {column: 0}).replace(f'"{column}": 0', f'"{column}": {value}', 1)
            yield upload(f"{column} = {name}", "berth-jsonl", row + "\n")
    tres = {"cpu": "cpu={},gres/gpu=4,mem=64G", "gpus": "cpu=1,gres/gpu={},mem=64G", "mem": "cpu=1,mem={}G"}
    for name, digits in product(tres, (30, 400, 4000, 5000)):
        row = ROWS["sacct"].rpartition("|")[0] + "|" + tres[name].format("9" * digits)
        yield upload(f"{name} of {digits} digits", "sacct", f"{HEADERS['sacct']}\n{row}\n")


def _whole_files():
    for form_name, entry in product((*HEADERS, "berth-jsonl", "shockwave"), CORPUS["texts"]):
        yield upload(entry["name"], form_name, text_of(entry))
        yield form_upload(entry["name"], form_name, text_of(entry))


def _cells():
    """Each column of each format with each value of the corpus."""
    for form_name, header in HEADERS.items():
        apart = "|" if form_name == "sacct" else ","
        names, values = header.split(apart), ROWS[form_name].split(apart)
        for (at, column), entry in product(enumerate(names), CORPUS["cells"]):
            cells = [*values[:at], text_of(entry), *values[at + 1 :]]
            yield upload(f"{column} = {entry['name']}", form_name, f"{header}\n{apart.join(cells)}\n")


def numbers():
    """Whole numbers of many digits wherever a form, a body, a query string or a path takes one."""
    for digits in (30, 400, 4000, 5000):
        many = "9" * digits
        for name in ("jobs", "seed", "until_h", "days", "knob_lambda", "knob_epoch_s", "source"):
            value = f"trace:{many}" if name == "source" else many
            yield Case.of(
                f"form {name}: {digits} digits", "/laboratory/new", form(**{name: value}), by="page", kind=FORM
            )
        yield Case.of(
            f"form days: {digits} digits", "/laboratory/new", form(source="history", days=many), by="page", kind=FORM
        )
        for name in ("jobs", "seed", "until_h", "trace"):
            asked = json.dumps(simulation(cluster="own") | {name: 0}).replace(f'"{name}": 0', f'"{name}": {many}')
            yield Case.of(f"body {name}: {digits} digits", "/api/v1/simulations", asked)
        for name in (
            "gpus",
            "cores",
            "memory_mib",
            "time_limit_s",
            "priority",
            "samples",
            "depends_on",
            "array",
            "labels",
        ):
            body = f'{{"command": "true", "{name}": {many}}}'
            yield Case.of(f"job {name}: {digits} digits", "/api/v1/jobs", body)
            yield Case.of(
                f"submit form {name}: {digits} digits",
                "/jobs/new",
                urlencode({"command": "true", name: many}),
                by="page",
                kind=FORM,
            )
        yield Case.of(f"days: {digits} digits", "/api/v1/simulations/traces/history", f'{{"days": {many}}}')
        for path in (
            "/api/v1/jobs/{}",
            "/api/v1/jobs?page={}",
            "/api/v1/jobs?page_size={}",
            "/api/v1/jobs?array={}",
            "/api/v1/jobs/1/logs?offset={}",
            "/api/v1/simulations/{}",
            "/api/v1/simulations?trace={}",
            "/api/v1/rounds/{}",
            "/api/v1/plannings/{}",
            "/api/v1/nodes/{}",
            "/api/v1/simulations/traces/{}",
            "/api/v1/jobs?since={}",
        ):
            yield Case.of(f"{path}: {digits} digits", path.format(many), b"", method="GET", kind="")
        for path in (
            "/jobs/{}/",
            "/jobs/?page={}",
            "/jobs/?q={}",
            "/jobs/{}/figures/gpu",
            "/jobs/{}/log?offset={}",
            "/jobs/{}/tasks",
            "/laboratory/{}/",
            "/laboratory/compare?run={}",
            "/laboratory/compare/figures/x?run={}",
            "/laboratory/new?from={}",
            "/laboratory/new?trace={}",
            "/laboratory/traces/{}/delete",
            "/rounds/?number={}",
            "/rounds/plannings/{}/",
            "/rounds/?page={}",
            "/cluster/{}/",
            "/search?q={}",
            "/queue/?page={}",
            "/queue/?whose={}",
            "/?hours={}",
            "/rounds/metrics/?hours={}",
            "/figures/use?hours={}",
            "/account/tokens/{}/revoke",
            "/jobs/new?from={}",
            "/jobs/csv?page={}",
        ):
            yield Case.of(f"{path}: {digits} digits", path.replace("{}", many), b"", by="page", method="GET", kind="")


ODD = [
    "\x00",
    "\ud800",
    "²",
    "٣",
    "a" * 20_000,
    "[" * 5000,
    "%",
    "1e999",
    "-0",
    "NaN",
    "'",
    "\u202e",
    "{}",
    "null",
    "\r\nX: y",
]


def odd():
    """Odd values in headers, cookies, query strings and paths."""
    for n, value in enumerate(ODD):
        quoted = quote(value.encode("utf-8", "surrogatepass"))
        for path in (
            "/api/v1/jobs?page={}",
            "/api/v1/jobs?name={}",
            "/api/v1/jobs?cursor={}",
            "/api/v1/jobs/{}",
            "/api/v1/nodes/{}",
            "/api/v1/jobs?since={}",
            "/api/v1/jobs?{}=1",
            "/api/v1/simulations?name={}",
            "/api/v1/jobs?labels={}",
        ):
            yield Case.of(f"{path} odd {n}", path.format(quoted), b"", method="GET", kind="")
        for path in (
            "/jobs/?q={}",
            "/jobs/?state={}",
            "/jobs/?page={}",
            "/jobs/?sort={}",
            "/search?q={}",
            "/rounds/?page={}",
            "/queue/?whose={}",
            "/laboratory/compare?run={}",
            "/laboratory/new?trace={}",
            "/jobs/new?from={}",
            "/login?next={}",
            "/jobs/{}/",
            "/cluster/{}/",
            "/figures/{}",
            "/jobs/?{}=1",
        ):
            yield Case.of(f"{path} odd {n}", path.format(quoted), b"", by="page", method="GET", kind="")
        if value.isascii() and value.isprintable():
            for header in (
                "Idempotency-Key",
                "Authorization",
                "Cookie",
                "X-Forwarded-For",
                "Accept-Language",
                "Content-Type",
                "HX-Target",
            ):
                yield Case.of(f"{header} odd {n}", "/api/v1/jobs", "{}", headers={header: value})
        yield Case.of(
            f"cookie odd {n}",
            "/jobs/",
            b"",
            by="page",
            method="GET",
            kind="",
            headers={"Cookie": f"theme={quoted}; x={quoted}"},
        )


def every():
    found = [*descriptions(), *traces(), *numbers(), *odd()]
    return list({case.name: case for case in found}.values())
