"""Characters that no database, page or terminal takes, in every text that a tenant or a node sends: taken or refused, never a 5xx."""

import json
from urllib.parse import quote

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, Phase, example, settings
from hypothesis import given as given_any

from portal.cluster.models import Node
from portal.people.tenants.services import secret_digest, token_create
from portal.work.jobs.api.logs import MAX_ANSWER_BYTES
from portal.work.jobs.models import Job, LogChunk
from portal.work.notifications.choosing import wishes_set
from portal.work.notifications.models import Item
from portal.work.notifications.spreading import happenings_spread
from scheduler.simulator.traces.registry import FORMATS
from tests.portal.hostile.cases import FORM, GOOD, HEADERS, JSON_ROW, ROWS
from tests.portal.odd_texts import TEXTS, read
from tests.portal.planning.templating.samples import TEXT as TEMPLATE

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SOME = settings(
    max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
WORST = ("\ud800a\0\udfff\ufffe\u202e", "\uffff\x85\u2028\x1b[31m\r<b>'\"\\{{", "\ufeff\u2066a", "\ufdd0a\uffff")
SCOPES = ("jobs:read", "jobs:write", "cluster:read", "simulations:read", "simulations:write")


def odd(test):
    for text in WORST:
        test = example(text)(test)
    return SOME(given_any(TEXTS)(test))


@pytest.fixture
def lena(cluster):
    """A browser, and REST with a token."""
    client = Client()
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    client.token = token_create(user=cluster.owner, name="odd", scopes=SCOPES, actor=None)[1]
    return client


def ask(lena, method, path, body, kind="application/json"):
    """Send it; JSON twice, with escapes and as bytes. Return the statuses."""
    bodies = [body] if isinstance(body, bytes) else [json.dumps(body), json.dumps(body, ensure_ascii=False)]
    cache.clear()  # not the throttle is asked
    found = []
    for each in bodies:
        data = each if isinstance(each, bytes) else each.encode("utf-8", "surrogatepass")
        headers = {"Authorization": f"Bearer {lena.token}"}
        answer = Client().generic(method, path, data, content_type=kind, headers=headers)
        assert answer.status_code < 500, (path, body)
        answer.content.decode()
        found.append(answer.status_code)
    return found


def form(lena, path, **fields):
    pairs = "&".join(f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in fields.items())
    cache.clear()
    answer = lena.generic("POST", path, pairs.encode(), content_type=FORM)
    assert answer.status_code < 500, (path, fields)
    answer.content.decode()
    return answer.status_code


def seen(lena, *pages):
    for page in pages:
        read(lena, page)


JOB_FIELDS = {
    "name": lambda text: text,
    "command": lambda text: f"echo {text}",
    "environment": lambda text: {"A": text},
    "labels": lambda text: {"a": text, text: "b"},
    "log_matches": lambda text: [text],
    "artefacts": lambda text: [f"{text}/*"],
    "files": lambda text: {f"a{text}.txt": "eA==", "b.txt": text},
    "working_directory": lambda text: text,
    "software": lambda text: {"requirements": f"torch\n{text}\n"},
    "model": lambda text: text,
    "gpu_types": lambda text: [text],
    "inputs": lambda text: [{"job": 1, "path": text, "as": text}],
    "code": lambda text: {"git": f"https://h/{text}", "ref": text},
    "secrets": lambda text: {"A": text},
    "unknown": lambda text: {text: text},
}


@odd
def test_in_a_job(lena, cluster, text):
    with transaction.atomic():
        for field, made in JOB_FIELDS.items():
            body = {"command": "true", field: made(text)}
            ask(lena, "POST", "/api/v1/jobs", body)
            ask(lena, "POST", "/api/v1/jobs/plan", json.dumps(body).encode())  # read as the one before is
        for name in (
            "command",
            "name",
            "environment",
            "labels",
            "log_matches",
            "artefacts",
            "inputs",
            "software.requirements",
        ):
            form(lena, "/jobs/new", **{"command": "true", "gpu_mode": "set", "gpus": "0"} | {name: text})
        for job in Job.objects.order_by("-pk")[:6]:
            seen(lena, f"/jobs/{job.pk}/", f"/api/v1/jobs/{job.pk}", f"/api/v1/jobs/{job.pk}/description")
            seen(lena, f"/jobs/new?from={job.pk}")
        numbers = Job.objects.order_by("-pk").values_list("pk", flat=True)[:2]
        seen(
            lena,
            "/jobs/",
            "/jobs/csv",
            "/queue/",
            "/api/v1/jobs",
            "/jobs/compare?" + "&".join(f"job={n}" for n in numbers),
        )
        query = quote(text.encode("utf-8", "surrogatepass"))
        for path in (
            f"/search?q={query}",
            f"/jobs/?q={query}",
            f"/api/v1/jobs?name={query}",
            f"/api/v1/jobs?q={query}",
        ):
            read(lena, path, (200, 302, 400, 404))
        transaction.set_rollback(True)


SCRIPTS = (
    "#!/bin/sh\n#SBATCH --job-name={0}\n#SBATCH --export=A={0}\n#SBATCH --gres=gpu:{0}:2\necho {0}\n",
    "#!/bin/sh{0}\n#SBATCH{0}--time=1:00:00\n{0}#SBATCH -n 1\n#SBATCH --{0}=1\ntrue\n",
    "command: true\nname: '{0}'\nenvironment: {{A: \"{0}\", '{0}': b}}\n",
    "{0}",
)


@odd
def test_in_a_script_and_in_a_file_of_a_job(lena, text):
    for script in SCRIPTS:
        said = script.replace("{0}", text)
        ask(lena, "POST", "/api/v1/jobs/import", {"text": said})
        form(lena, "/jobs/new/script", text=said)


@odd
def test_in_a_template_and_a_secret(lena, text):
    with transaction.atomic():
        for old in (
            "Learning rate",
            "The step.",
            "Train a model",
            "A training that saves its work.",
            "[small, large]",
            "KIND",
        ):
            said = TEMPLATE.replace(old, text)
            ask(lena, "POST", "/api/v1/templates", {"text": said})
            form(lena, "/templates/new", text=said)
        for body in ({"name": text, "value": "x" * 12}, {"name": "a", "value": f"{text}long enough"}):
            ask(lena, "POST", "/api/v1/secrets", body)
        seen(lena, "/templates/", "/api/v1/templates", "/api/v1/secrets", "/tenants/vision-lab/")
        transaction.set_rollback(True)


@odd
def test_in_a_trace_and_a_cluster(lena, text):
    with transaction.atomic():
        data = text.encode("utf-8", "surrogatepass")
        for name in FORMATS:
            upload = f"/api/v1/simulations/traces?name=x&format={name}"
            for content in _traces(name, data):
                ask(lena, "POST", upload, content, "application/octet-stream")
        for said in (
            f"{GOOD}\nname: '{text}'",
            f"tenants: [{{name: '{text}', weight: 1}}]\n{GOOD}",
            f'nodes: [{{name: "{text}"}}]',
        ):
            order = {"name": text, "generator": "hops-64", "jobs": 1, "policies": ["fifo"], "cluster": "described"}
            ask(lena, "POST", "/api/v1/simulations", order | {"description": said})
        ask(lena, "POST", "/api/v1/simulations", {"name": "x", "generator": text, "policies": [text], "jobs": 1})
        seen(lena, "/laboratory/", "/laboratory/new", reverse("laboratory-traces"), "/api/v1/simulations/traces")
        transaction.set_rollback(True)


def _traces(name, data):
    """A good file of the format with the text in each cell, and a file with nothing but the text."""
    yield data
    if name == "berth-jsonl":
        for column in JSON_ROW:
            row = JSON_ROW | {column: data.decode("utf-8", "surrogatepass")}
            yield json.dumps(row).encode() + b"\n"
        return
    if name not in HEADERS:
        return
    apart = b"|" if name == "sacct" else b","
    cells = ROWS[name].encode().split(apart)
    for at in range(len(cells)):
        row = apart.join([*cells[:at], data, *cells[at + 1 :]])
        yield HEADERS[name].encode() + b"\n" + row + b"\n"
    yield HEADERS[name].encode() + apart + data + b"\n" + ROWS[name].encode() + apart + data + b"\n"


@odd
def test_in_what_a_job_prints(running, lena, text):
    """Its line is found, told and shown; the bytes are kept as they are."""
    with transaction.atomic():
        wishes_set(user=running.job.owner, mail=["log"], waits_h=24)
        secret = "berthnode_test"
        Node.objects.filter(allocations__attempt=running).update(token_digest=secret_digest(secret), boot_id="boot-1")
        data = f"needle {text} x\n{text}".encode("utf-8", "surrogatepass")
        named = f"attempt={running.key}&epoch=1&rank=0&stream=stdout&offset=0"
        answer = Client().generic(
            "POST",
            f"/api/agent/v1/logs?{named}",
            data,
            content_type="application/octet-stream",
            headers={"Authorization": f"Bearer {secret}"},
        )
        assert answer.status_code == 200, answer.content
        happenings_spread()
        assert "needle" in Item.objects.get(what="log").detail
        assert bytes(LogChunk.objects.get().data) == data
        number = running.job.number
        log = [f"/jobs/{number}/log", f"/api/v1/jobs/{number}/logs", f"/api/v1/jobs/{number}/logs?tail=1", "/"]
        seen(lena, f"/jobs/{number}/", *log)
        assert len(read(lena, f"/api/v1/jobs/{number}/logs")) < MAX_ANSWER_BYTES
        transaction.set_rollback(True)


@pytest.fixture
def running(cluster):
    return cluster.running(log_matches=["needle"])


@odd
def test_in_what_a_node_says(running, lena, text):
    with transaction.atomic():
        secret = "berthnode_test"
        node = Node.objects.get(allocations__attempt=running)
        Node.objects.filter(pk=node.pk).update(token_digest=secret_digest(secret), boot_id="boot-1")
        part = {"attempt": running.key, "epoch": 1, "rank": 0}
        finding = {"subject": "node", "check": text, "detail": text, "remedy": text, "level": "warning"}
        bodies = [
            {"reports": [part | {"sequence": 9, "state": "ended", "reason": "exit", "exit_code": 1, "detail": text}]},
            {"problems": [{"at": 1.0, "subject": text, "detail": text}]},
            {"health": {"findings": [finding], "outside": [{"gpu": 0, "pid": 5, "name": text, "memory_mib": 1.0}]}},
            {text: text},
        ]
        for body in bodies:
            for said in (json.dumps, lambda value: json.dumps(value, ensure_ascii=False)):
                data = said({"boot_id": "boot-1", "reports": [], "holding": []} | body).encode("utf-8", "surrogatepass")
                headers = {"Authorization": f"Bearer {secret}"}
                answer = Client().generic(
                    "POST", "/api/agent/v1/report", data, content_type="application/json", headers=headers
                )
                assert answer.status_code < 500, body
        seen(lena, "/cluster/", f"/cluster/{node.name}/", f"/api/v1/nodes/{node.name}", f"/jobs/{running.job.number}/")
        transaction.set_rollback(True)


ASKED = (
    "/search?q={}",
    "/cluster/{}/",
    "/jobs/?q={}",
    "/jobs/?{}=1",
    "/jobs/{}/",
    "/jobs/new?from={}",
    "/templates/?q={}",
    "/cluster/rows?q={}",
    "/laboratory/new?from={}",
    "/help/{}",
    "/tenants/vision-lab/usage?since={}",
    "/tenants/vision-lab/members/{}",
    "/api/v1/nodes/{}",
    "/api/v1/jobs/{}",
    "/api/v1/jobs?name={}",
    "/api/v1/templates/{}",
    "/api/v1/tenants/{}/members",
    "/admin/login/?next={}",
)


def test_in_an_address(lena, subtests):
    """Postgres takes no U+0000, so a view that asked for it failed there; SQLite does."""
    for address in ASKED:
        with subtests.test(address=address):
            for text in ("%00", "a%00b"):
                answer = lena.get(address.format(text), headers={"Authorization": f"Bearer {lena.token}"})
                assert answer.status_code in {400, 404, 405}
                assert b"\0" not in answer.content
            assert lena.get(address.format("%ED%A0%80a%EF%BF%BF")).status_code < 500


@pytest.mark.parametrize(
    ("page", "field"),
    [
        ("/login", "username"),
        ("/account/tokens/", "name"),
        ("/account/time-zone", "zone"),
        ("/tenants/vision-lab/secrets", "name"),
        ("/tenants/vision-lab/invite", "role"),
        ("/jobs/views", "name"),
        ("/jobs/new/save", "name"),
        ("/laboratory/new", "name"),
        ("/templates/new", "text"),
    ],
)
def test_in_a_form(lena, page, field):
    client = Client() if page == "/login" else lena
    assert client.post(page, {field: "a\0b"}).status_code == 400
    answer = client.generic("POST", page, f"{field}=a%00b".encode(), content_type=FORM)
    assert answer.status_code == 400
    assert f"`{field}` contains the character U+0000" in answer.content.decode()
