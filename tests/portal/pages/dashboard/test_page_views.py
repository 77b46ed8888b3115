"""The pages on the whole cluster, as owner, teammate, outsider, operator and anonymous."""

import copy
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

from portal.cluster.models import Node, NodeEvent
from portal.pages.dashboard.rounds import page as rounds_page
from portal.people.tenants.models import ApiToken
from portal.planning.rounds.models import Planning
from tests.portal.lasting import lasting
from tests.portal.pages.dashboard.cluster_world import PASSWORD, World, grow, people

pytestmark = pytest.mark.django_db

SECRET = "resnet-secret"
PLOTS = ("gpu", "cpu", "wait", "fragments", "waiting", "ended")
OVERVIEW_FRAGMENTS = ("problems", "tiles", "nodes", "waits", "unused")


@pytest.fixture(scope="module", autouse=True)
def no_broker():
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, no_broker):
    """Eight GPUs of which the owner's job holds four and the outsider's two; a job of each waits, one is held."""
    with lasting(django_db_blocker):
        world = people(World())
        world.node("big")
        world.node("plain", gpus=0, cores=16)
        world.submit("owner", SECRET, gpus=[4])
        world.submit("outsider", "speech-secret", gpus=[2])
        world.submit("owner", "count-words", gpus=0, cores=2)
        world.run()
        world.submit("owner", "owner-waits", gpus=[8])
        world.submit("outsider", "outsider-waits", gpus=[4])
        world.run()
        yield world


@pytest.fixture
def world(built, db):
    """The same for each test, as of now."""
    Node.objects.update(last_contact_at=timezone.now())
    return copy.deepcopy(built)


def planning_path():
    return f"/rounds/plannings/{Planning.objects.order_by('-number').first().number}/"


# ---- who sees what -----------------------------------------------------------------------------------------------


def test_a_plannings_decisions_are_masked(world):
    page = world.get("owner", planning_path()).content.decode()
    assert "owner-waits" in page
    assert "a job of another tenant" in page
    assert "outsider-waits" in world.get("operator", planning_path()).content.decode()


def test_who_drained_a_node_is_for_operators(world):
    world.client("operator").post("/cluster/big/drain", {"reason": "driver update"})
    told = [world.get(reader, "/cluster/big/fragments/happened").content.decode() for reader in ("owner", "operator")]
    assert all("Taken out: driver update." in each for each in told)
    assert ['title="by an operator"' in each for each in told] == [True, False]
    assert 'title="by operator"' in told[1]


# ---- figures ------------------------------------------------------------------------------------------------------


def test_blocks_count_what_fits_and_what_is_short(world):
    page = world.get("operator", "/rounds/metrics/", fragment="blocks").content.decode()
    assert "2 idle GPUs, largest placeable job 2." in page
    assert "2 waiting jobs need 4 to 8." in page
    assert "6 short" in page


# ---- fragments and addresses ---------------------------------------------------------------------------------------


BAD_ADDRESSES = [
    ("/fragments/overview/nodes", 404),
    ("/cluster/fragments/node_row", 404),
    ("/cluster/nowhere/", 404),
    ("/cluster/nowhere/figures/gpu", 404),
    ("/cluster/big/figures/nonsense", 404),
    ("/cluster/big/fragments/actions", 404),
    ("/rounds/metrics/figures/secrets", 404),
    ("/rounds/metrics/?fragment=blocks", 404),
    ("/rounds/?page=0", 400),
    ("/rounds/?page=x", 400),
    ("/rounds/?fragment=list", 404),
    ("/rounds/plannings/99999/", 404),
    ("/search?q=" + "x" * 200, 400),
    ("/nothing-here", 404),
]


def test_bad_addresses_answer_plainly(world):
    client = world.client("owner")
    for path, status in BAD_ADDRESSES:
        answer = client.get(path)
        assert answer.status_code == status, path
        assert f"Status {status}" in answer.content.decode(), path


def test_paging_of_rounds(world):
    first = Planning.objects.order_by("number").first()
    Planning.objects.bulk_create(
        Planning(number=1000 + i, round=first.round, started_at=first.started_at, status="applied", policy="fifo")
        for i in range(60)
    )
    page = world.get("owner", "/rounds/").content.decode()
    assert "1–50 of 62 plannings" in page
    assert 'href="/rounds/?page=2"' in page
    assert "51–62 of 62 plannings" in world.get("owner", "/rounds/?page=2").content.decode()


def test_a_plannings_decisions_come_in_pages(world, monkeypatch):
    monkeypatch.setattr(rounds_page, "DECISIONS_A_PAGE", 2)
    path = f"/rounds/plannings/{Planning.objects.order_by('number').first().number}/"  # of three jobs
    first, second = (world.get("operator", f"{path}{page}").content.decode() for page in ("", "?page=2"))
    assert "1–2 of " in first
    assert f'href="{path}?page=2"' in first
    assert "3–" in second
    numbers = [set(re.findall(r">#(\d+)</a>", page.partition("Decisions</h2>")[2])) for page in (first, second)]
    assert numbers[0]
    assert numbers[1]
    assert not numbers[0] & numbers[1]
    assert world.get("operator", f"{path}?page=0").status_code == 400
    beyond = world.get("operator", f"{path}?page=99").content.decode()
    assert "The decisions end before this page" in beyond


# ---- node actions --------------------------------------------------------------------------------------------------


def test_only_operators_act_on_nodes(world):
    for reader in ("owner", "teammate", "outsider", "anonymous"):
        for verb in ("drain", "resume", "dead"):
            answer = world.client(reader).post(f"/cluster/big/{verb}", {"reason": "because"})
            assert answer.status_code == (302 if reader == "anonymous" else 403), (reader, verb)
        assert "/cluster/big/drain" not in world.get(reader, "/cluster/").content.decode()
    assert Node.objects.get(name="big").health == "up"
    assert "/cluster/big/drain" in world.get("operator", "/cluster/").content.decode()


def test_an_operator_drains_and_resumes_with_a_reason(world):
    client = world.client("operator")
    assert client.post("/cluster/big/drain", {"reason": " "}).status_code == 400
    assert Node.objects.get(name="big").drained_at is None
    answer = client.post(
        "/cluster/big/drain", {"reason": "driver update"}, headers={"Referer": "http://testserver/cluster/big/"}
    )
    assert answer.url == "http://testserver/cluster/big/"
    assert Node.objects.get(name="big").drain_reason == "driver update"
    assert "Out: driver update" in world.get("owner", "/cluster/").content.decode()
    answer = client.post("/cluster/big/resume", headers={"Referer": "http://elsewhere.example/"})
    assert answer.url == "/cluster/"
    assert NodeEvent.objects.filter(kind="resumed", actor_name="operator").exists()


def test_a_node_in_contact_is_not_declared_dead(world):
    assert world.client("operator").post("/cluster/big/dead", {"reason": "on fire"}).status_code == 409
    assert Node.objects.get(name="big").dead_at is None


def test_node_actions_are_posts_of_known_verbs(world):
    client = world.client("operator")
    assert client.get("/cluster/big/drain").status_code == 405
    assert client.post("/cluster/big/explode", {"reason": "x"}).status_code == 404
    assert client.post("/cluster/nowhere/drain", {"reason": "x"}).status_code == 404


# ---- tokens --------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once(world):
    client = world.client("owner")
    form = {"name": "nightly", "tenant": "vision", "scopes": ["jobs:read"], "expires": "30"}
    answer = client.post("/account/tokens/", form)
    secret = re.search(r"berth_[\w-]{40,}", answer.content.decode())[0]
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    assert secret not in client.get("/account/tokens/").content.decode()
    token = ApiToken.objects.get()
    assert (token.tenant.name, token.scopes, token.user.username) == ("vision", ["jobs:read"], "owner")


BAD_TOKENS = [
    ({"name": " "}, "name"),
    ({"scopes": []}, "scopes"),
    ({"scopes": ["operator"]}, "scopes"),
    ({"scopes": ["everything"]}, "scopes"),
    ({"tenant": "speech"}, "tenant"),
    ({"tenant": "nobody"}, "tenant"),
    ({"expires": "soon"}, "expires"),
]


def test_a_bad_token_form_names_its_field_and_makes_nothing(world):
    for changed, field in BAD_TOKENS:
        form = {"name": "nightly", "tenant": "vision", "scopes": ["jobs:read"], "expires": "30"} | changed
        answer = world.client("owner").post("/account/tokens/", form)
        assert answer.status_code == 400, changed
        assert answer.context["fields"][field]["error"] in answer.content.decode().replace("&#x27;", "'"), changed
    assert not ApiToken.objects.exists()


def test_only_its_owner_revokes_a_token(world):
    world.client("owner").post("/account/tokens/", {"name": "n", "scopes": ["jobs:read"], "expires": ""})
    token = ApiToken.objects.get()
    path = f"/account/tokens/{token.pk}/revoke"
    assert world.client("anonymous").post(path).url.startswith("/login")
    for reader in ("teammate", "outsider", "operator"):
        assert world.client(reader).post(path).status_code == 404
        assert token.prefix not in world.get(reader, "/account/tokens/").content.decode()
    assert ApiToken.objects.filter(revoked_at=None).exists()
    assert world.client("owner").post(path).status_code == 302
    assert not ApiToken.objects.filter(revoked_at=None).exists()


# ---- search --------------------------------------------------------------------------------------------------------


def test_search_leads_to_what_it_names(world):
    job = world.job(SECRET)
    assert world.get("owner", "/search", q=f"#{job.number}").url == f"/jobs/{job.number}/"
    assert world.get("teammate", "/search", q=job.number).url == f"/jobs/{job.number}/"
    assert world.get("owner", "/search", q="big").url == "/cluster/big/"
    assert world.get("owner", "/search", q="vision").url == "/jobs/?tenant=vision"
    assert SECRET in world.get("owner", "/search", q="RESNET").content.decode()


def test_search_finds_an_arrays_task(world):
    world.submit("owner", "sweep", gpus=[1], array={"size": 3})
    number = f"{world.array('sweep').pk}_1"
    assert world.get("owner", "/search", q=number).url == f"/jobs/{number}/"
    assert world.get("outsider", "/search", q=number).status_code == 200


def test_search_hides_foreign_jobs_and_tenants(world):
    job = world.job(SECRET)
    for text in (job.number, SECRET, "vision"):
        answer = world.get("outsider", "/search", q=text)
        assert answer.status_code == 200
        assert "Nothing that you may see has such a name." in answer.content.decode()


# ---- signing in ----------------------------------------------------------------------------------------------------


def test_sign_in_and_out(world):
    client = world.client("anonymous")
    answer = client.post("/login", {"username": "owner", "password": PASSWORD, "next": "/cluster/"})
    assert answer.url == "/cluster/"
    assert client.get("/login").url == "/"
    assert client.get("/logout").status_code == 405
    assert client.post("/logout").url == "/login"
    assert client.get("/").status_code == 302


def test_a_foreign_next_is_not_followed(world):
    form = {"username": "owner", "password": PASSWORD, "next": "https://elsewhere.example/"}
    assert world.client("anonymous").post("/login", form).url == "/"


def test_too_many_wrong_passwords_lock_the_name(world, settings):
    settings.AXES_FAILURE_LIMIT = 3
    client = world.client("anonymous")
    answers = [client.post("/login", {"username": "owner", "password": f"wrong {i}"}).status_code for i in range(4)]
    assert answers == [200, 200, 429, 429]
    locked = client.post("/login", {"username": "owner", "password": PASSWORD})
    assert locked.status_code == 429
    assert "Try again in 15" in locked.content.decode()
    assert client.post("/login", {"username": "teammate", "password": PASSWORD}).status_code == 302


def test_a_form_without_its_csrf_token_is_a_page_not_a_trace(world):
    from django.test import Client

    answer = Client(enforce_csrf_checks=True).post("/login", {"username": "owner", "password": PASSWORD})
    assert answer.status_code == 403
    assert "You may not do this" in answer.content.decode()


def test_unknown_api_paths_answer_in_json(world):
    answer = world.client("owner").get("/api/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


# ---- cost ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_queries_do_not_grow_with_the_cluster(world):
    grow(world, nodes=4, jobs=20)
    paths = (
        "/",
        "/cluster/",
        "/cluster/n002/",
        "/rounds/",
        "/rounds/metrics/",
        *(f"/rounds/metrics/figures/{name}" for name in PLOTS),
        "/account/tokens/",
        "/search?q=job",
    )
    small = counts(world, paths)
    grow(world, nodes=8, jobs=60)
    large = counts(world, paths)
    assert large == small
    assert max(large.values()) <= 47, "each fragment reads for itself: no Redis here"


def counts(world, paths):
    """Queries of each page for a tenant and for an operator."""
    named = {**{path: path for path in paths}, "planning": planning_path()}
    fragments = {name: f"/fragments/overview/{name}" for name in OVERVIEW_FRAGMENTS}
    return {
        (reader, name): count_queries(world.client(reader), path)
        for reader, own in (("owner", named), ("operator", named | fragments))
        for name, path in own.items()
    }


def count_queries(client, path):
    Node.objects.update(last_contact_at=timezone.now())  # on a slow machine they would be silent by now
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def test_figures_over_time_say_what_the_plannings_recorded(world):
    world.run()  # the last planning is one of now
    page = world.get("outsider", "/rounds/metrics/").content.decode()
    assert SECRET not in page
    assert "What would fit" not in page, "for operators"
    assert "What would fit" in world.get("operator", "/rounds/metrics/").content.decode()

    def drawn(name, **query):
        return world.get("outsider", f"/rounds/metrics/figures/{name}", **query).json()

    gpu, cpu = drawn("gpu"), drawn("cpu", range="1h")
    assert [(line["name"], line["y"][-1], line["end"]) for line in gpu["lines"]] == [("A100", 75.0, "A100 75\u00a0%")]
    assert cpu["lines"][0]["y"][-1] == 37.5
    assert drawn("waiting", range="24h")["lines"][0]["y"][-1] == 2
    ended, waiting = drawn("wait")["lines"]
    assert ended["y"][-1] is None, "nothing ended: no data, not nought"
    assert waiting["y"][-1] is not None
    assert drawn("ended")["lines"][0]["y"][-1] == 0
    world.end(world.job(SECRET))
    assert drawn("ended")["lines"][0]["y"][-1] == 1
    assert world.get("outsider", "/rounds/metrics/", range="2h").status_code == 400
    assert world.get("outsider", "/rounds/metrics/", fragment="x").status_code == 404


def test_plots_begin_at_the_first_figure(world):
    """A range longer than the data shows no empty days."""
    for name in PLOTS:
        start, end = world.get("owner", f"/rounds/metrics/figures/{name}?range=90d").json()["x"]["range"]
        assert end - start < 3600, name


def test_a_nodes_rates_stand_in_a_table(world):
    page = world.get("owner", "/rounds/metrics/", fragment="nodes").content.decode()
    row = re.sub(r"<[^>]*>|\s+", " ", page.partition(">big<")[2].partition("</tr>")[0])
    assert re.search(r"8 \u00d7 A100 .* 7\d % .* 2 $", row), row
    csv = b"".join(world.get("owner", "/rounds/metrics/figures.csv")).decode()
    assert csv.splitlines()[0].startswith("at,gpu_active_rate,cpu_active_rate,utilisation")
    assert len(csv.splitlines()) > 1
