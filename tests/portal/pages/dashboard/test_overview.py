"""The operators' overview: problems, four figures, nodes, the longest waits, idle jobs, and a message to a job's owner."""

import copy
import re
from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.test import override_settings
from django.utils import timezone

from portal.cluster.models import Gpu, Node
from portal.operate.health import health
from portal.pages.dashboard.overview.problems import SHOWN, problems_make
from portal.pages.dashboard.overview.tiles import tile_contexts
from portal.pages.dashboard.parts.gpus import UNUSED_S
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.work.jobs.models import Attempt, JobEvent
from portal.work.jobs.services.control import job_hold
from portal.work.notifications.choosing import wishes_set
from portal.work.notifications.models import Item
from portal.work.notifications.spreading import happenings_spread
from portal.work.notifications.words import mail_of
from tests.portal.lasting import lasting
from tests.portal.pages.dashboard.cluster_world import World, people

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", autouse=True)
def no_broker():
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, no_broker):
    """Eight GPUs of which the owner's job holds four and the outsider's two; a job of each waits."""
    with lasting(django_db_blocker):
        world = people(World())
        world.node("big")
        world.submit("owner", "trains", gpus=[4])
        world.submit("outsider", "evals", gpus=[2])
        world.run()
        world.submit("owner", "owner-waits", gpus=[8])
        world.submit("outsider", "outsider-waits", gpus=[4])
        world.run()
        yield world


@pytest.fixture
def world(built, db):
    Node.objects.update(last_contact_at=timezone.now(), single_account=False)
    return copy.deepcopy(built)


def fragment(world, name):
    html = world.get("operator", f"/fragments/overview/{name}").content.decode()
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]*>", " ", html)), html


def tiles(world):
    found = tile_contexts(Snapshot(world.users["operator"]))
    return {tile["label"]: (tile["figure"], tile["unit"], tile["note"]) for tile in found}


def sampled(uses, *, unused_s=0.0):
    """Give the node a fresh sample, with its idle GPUs idle for `unused_s` seconds."""
    now = timezone.now().timestamp()
    gpus = {str(index): {"utilisation": use} for index, use in enumerate(uses)}
    unused = {index: now - unused_s for index, sample in gpus.items() if not sample["utilisation"]}
    Node.objects.update(live={"at": now, "gpus": gpus, "host": {}, "attempts": {}, "unused": unused})


def long_ago():
    Attempt.objects.update(created_at=timezone.now() - timedelta(hours=5))


# ---- readers -------------------------------------------------------------------------------------------------------


def test_it_is_for_operators(world):
    assert "Waits longest" in world.get("operator", "/").content.decode()
    for reader in ("owner", "outsider"):
        page = world.get(reader, "/", view="cluster").content.decode()
        assert "Waits longest" not in page
        assert "view=cluster" not in page
        assert world.get(reader, "/fragments/overview/nodes").status_code == 404
        job = world.job("trains").number
        assert world.client(reader).post(f"/jobs/{job}/ask", {"text": "why?"}).status_code == 404
    assert not JobEvent.objects.filter(kind="asked").exists()


# ---- figures -------------------------------------------------------------------------------------------------------


def test_four_figures_say_what_is_held_computes_waits_and_is_lost(world):
    assert tiles(world) == {
        "GPUs held": ("6", "of 8", "2 free"),
        "Computing": ("0", "of 6", "6 not measured"),
        "Waiting": ("2", "jobs", "no job has ended lately"),
        "Lost to fragments": ("0", "GPUs", "none now"),
    }
    sampled([90.0, 80.0, 0.0, 40.0, 0.0, 20.0, 0.0, 0.0])
    Gpu.objects.filter(index=7).update(cordoned_at=timezone.now())
    assert tiles(world)["Computing"] == ("4", "of 6", "2 held, but idle")
    assert tiles(world)["GPUs held"][2] == "1 free, 1 out"


def test_the_wait_of_ended_jobs_is_told_in_words(world):
    job = world.job("trains")
    type(job).objects.filter(pk=job.pk).update(waited_s=66.0, age_s=100.0)
    world.end(job)
    assert tiles(world)["Waiting"][2].startswith("waited 0.6")
    assert tiles(world)["Waiting"][2].endswith(" times its run time")


def test_held_jobs_do_not_wait(world):
    job_hold(job=world.job("owner-waits"), actor=world.users["owner"])
    assert tiles(world)["Waiting"][:2] == ("1", "job")
    assert "owner-waits" not in fragment(world, "waits")[0]


def test_nodes_have_both_active_rates(world):
    text, html = fragment(world, "nodes")
    assert "8 × A100" in text
    assert re.search(r"\d+\u00a0% GPU", text), text
    assert re.search(r"\d+\u00a0% CPU", text)
    assert html.count('class="b-gpu b-u1"') == 6
    assert html.count('class="b-gpu b-free"') == 2


def test_the_longest_wait_comes_first_with_what_it_asks_for(world):
    text, html = fragment(world, "waits")
    assert text.index("owner-waits") < text.index("outsider-waits")
    assert "vision, 8 GPUs" in text
    assert f'href="/jobs/{world.job("owner-waits").number}/"' in html


# ---- problems ------------------------------------------------------------------------------------------------------


def test_there_are_no_problems_where_all_is_well(world, monkeypatch):
    monkeypatch.setattr("portal.pages.dashboard.overview.problems.health", lambda: ({}, []))
    assert fragment(world, "problems")[1].strip() == ""


def test_a_problem_says_what_since_when_what_became_of_it_and_what_to_do(world, monkeypatch):
    monkeypatch.setattr("portal.pages.dashboard.overview.problems.health", lambda: ({}, []))
    at = timezone.now() - timedelta(hours=3)
    Gpu.objects.filter(index=5).update(
        cordoned_at=at, cordon_check="ecc", cordon_reason="memory errors", cordon_remedy="Replace it."
    )
    Gpu.objects.filter(index=6).update(cordoned_at=at, cordon_reason="an operator's own")
    text, html = fragment(world, "problems")
    assert "GPU 5 of big is out: memory errors" in text
    assert f'<time datetime="{at.isoformat()}"' in html
    assert "Replace it." in text
    assert '<a class="b-button" href="/cluster/big/">What to do</a>' in html
    assert "GPU 6" not in text


def test_a_node_that_does_not_answer_is_named_with_what_ran_there(world, monkeypatch):
    monkeypatch.setattr(health, "problems_of", lambda now: ["nodes: 1 unreachable (big since 2026-11-24 14:02:00 UTC)"])
    Node.objects.update(last_contact_at=timezone.now() - timedelta(minutes=10))
    text, _ = fragment(world, "problems")
    assert "big does not answer" in text
    assert "it has 2 jobs, which may still run" in text
    assert "unreachable" not in text, "once, not twice"


def test_sentences_of_the_health_page_become_problems_in_the_readers_zone(world, monkeypatch):
    told = ["backup: the newest is of 2026-11-22 03:00 UTC, and one every 24 h is due; logs/laboratory.log says why"]
    monkeypatch.setattr("portal.pages.dashboard.overview.problems.health", lambda: ({}, told))
    text, html = fragment(world, "problems")
    assert "Backup: the newest is of <time" in html
    assert 'datetime="2026-11-22T03:00Z"' in html
    assert "logs/laboratory.log says why" in text
    assert 'formaction="/console/backup"' in html, "a button, not a link: it acts"
    assert "Back up now" in text


def test_at_most_five_are_shown_and_the_others_counted(world, monkeypatch):
    told = [f"thing {n}: it is broken" for n in range(7)]
    monkeypatch.setattr("portal.pages.dashboard.overview.problems.health", lambda: ({}, told))
    found = problems_make(Snapshot(world.users["operator"]))
    assert (len(found["shown"]), found["more"]) == (SHOWN, 2)
    assert "and 2 more" in fragment(world, "problems")[0]


# ---- nobody computes on these --------------------------------------------------------------------------------------


def test_a_job_is_named_that_computes_on_none_of_its_gpus_for_ten_minutes(world):
    long_ago()
    held = {row.gpu.index: row.allocation.attempt.job.name for row in _held()}
    sampled([0.0 if held.get(index) == "trains" else 60.0 for index in range(8)], unused_s=UNUSED_S + 3000)
    text, html = fragment(world, "unused")
    assert "trains" in text
    assert "owner, 4 A100" in text
    assert "1\u00a0h" in text
    assert "evals" not in text
    assert f'data-ask-url="/jobs/{world.job("trains").number}/ask"' in html


def test_one_that_computes_on_a_gpu_or_began_just_now_is_not(world):
    held = {row.gpu.index: row.allocation.attempt.job.name for row in _held()}
    sampled([0.0] * 8, unused_s=UNUSED_S + 60)
    assert fragment(world, "unused")[0].strip() == "", "it began just now"
    long_ago()
    first = next(index for index, name in held.items() if name == "trains")
    sampled([50.0 if index == first else 0.0 for index in range(8)], unused_s=UNUSED_S + 60)
    assert "trains" not in fragment(world, "unused")[0]
    assert "evals" in fragment(world, "unused")[0]


def _held():
    from portal.work.jobs.models import GpuAllocation

    return GpuAllocation.objects.filter(released_at=None).select_related("gpu", "allocation__attempt__job")


def ask(world, text, job="trains"):
    answer = world.client("operator").post(f"/jobs/{world.job(job).number}/ask", {"text": text})
    assert answer.status_code == 302
    return [str(each) for each in get_messages(answer.wsgi_request)]


def test_a_message_goes_out_as_the_owner_wants_and_stands_on_the_jobs_page(world):
    wishes_set(user=world.users["owner"], mail=["idle"], waits_h=24)
    assert ask(world, "Do you still\nneed the four GPUs?") == ["owner gets a message."]
    happenings_spread()
    item = Item.objects.get(what="idle")
    assert item.user == world.users["owner"]
    subject, body = mail_of([item], 1)
    assert "is not used" in subject
    assert "Question of operator: Do you still need the four GPUs?" in body
    page = world.get("owner", f"/jobs/{world.job('trains').number}/").content.decode()
    assert "Question of operator: Do you still need the four GPUs?" in page


def test_an_owner_who_chose_no_messages_finds_it_on_the_page_and_the_operator_hears_that(world):
    assert ask(world, "Do you need it?") == ["owner chose no messages of this kind; it stands on the job's page."]
    assert JobEvent.objects.get(kind="asked").actor_name == "operator"
    happenings_spread()
    assert not Item.objects.exists()


def test_it_is_refused_twice_in_a_row_without_text_and_when_the_job_has_ended(world):
    ask(world, "Do you need it?")
    assert ask(world, "Do you?") == ["Its owner was asked within the last 10 minutes."]
    assert ask(world, " ", job="evals") == ["`text` must have 1 to 250 characters."]
    world.end(world.job("evals"))
    assert "has ended" in ask(world, "Do you?", job="evals")[0]
    assert JobEvent.objects.filter(kind="asked").count() == 1
