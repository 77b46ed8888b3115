"""Submitting, listing, showing and acting on jobs over the real URLs."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.work.jobs.models import IdempotencyKey, Job, JobText
from tests.portal.foundation.api.conftest import refusal

pytestmark = pytest.mark.django_db


def test_a_submitted_job_is_there_with_its_description(world):
    answer = world.owner(
        "POST",
        "/jobs",
        {
            "command": "python3 a.py",
            "gpus": [1, 2],
            "files": {"a.py": "print(1)\n"},
            "labels": {"run": "7"},
            "environment": {"A": "b"},
            "workdir": "sub",
            "lr": {"at": 2, "value": 0.1, "rule": "linear"},
        },
    )
    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["Location"] == job["url"] == f"/api/v1/jobs/{job['id']}"
    assert (job["state"], job["tenant"], job["owner"], job["name"]) == ("PENDING", "vision-lab", "lena", "a.py")
    shown = world.teammate("GET", f"/jobs/{job['id']}").json()
    assert shown["files"] == [{"name": "a.py", "bytes": 9}]
    assert (shown["working_directory"], shown["environment"], shown["labels"]) == ("sub", {"A": "b"}, {"run": "7"})
    assert (shown["gpus"], shown["attempts"], shown["depends_on"]) == ([1, 2], [], [])
    assert shown["submitted_at"].endswith("Z")


def test_hold_release_priority_cancel(world):
    path = f"/jobs/{world.owner.submit()['id']}"
    assert world.teammate("POST", f"{path}/hold").json()["state"] == "HELD"
    refusal(world.owner("POST", f"{path}/hold"), 409, "not_waiting")
    assert world.owner("POST", f"{path}/release", {}).json()["state"] == "PENDING"
    refusal(world.owner("POST", f"{path}/requeue"), 409, "not_running")
    assert world.owner("PATCH", path, {"priority": -5}).json()["priority"] == -5
    assert world.manager("PATCH", path, {"priority": 50}).json()["priority"] == 50
    assert world.owner("POST", f"{path}/cancel").json()["state"] == "CANCELLED"


def test_dependencies_and_explanation(world):
    first = world.owner.submit()["id"]
    second = world.owner.submit(depends_on=[{"job": first, "kind": "any"}])
    assert second["depends_on"] == [{"job": first, "kind": "any"}]
    explained = world.owner("GET", f"/jobs/{second['id']}/explain").json()
    assert explained["job"] == str(second["id"])
    assert explained["sentence"]


def test_an_array_is_folded_and_its_tasks_have_numbers(world):
    parent = world.owner.submit(array={"size": 3, "concurrency": 2}, name="sweep")
    listed = world.owner.get("/jobs").json()
    assert [row["id"] for row in listed["results"]] == [parent["id"]]
    tasks = world.owner.get("/jobs", array=parent["id"], ordering="id").json()["results"]
    assert [row["number"] for row in tasks] == [f"{parent['id']}_0", f"{parent['id']}_1"]
    task = world.owner("GET", f"/jobs/{tasks[1]['number']}").json()
    assert (task["command"], task["array_index"], task["array_job"]) == ("true", 1, parent["id"])
    assert world.owner("POST", f"/jobs/{tasks[1]['number']}/cancel").json()["state"] == "CANCELLED"


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_outsiders_and_operators(world, method):
    path = f"/jobs/{world.owner.submit()['id']}"
    body = {"priority": -1} if method == "PATCH" else None
    refusal(world.outsider(method, path, body), 404, "not_found")
    assert world.operator(method, path, body).status_code == 200
    assert world.outsider.get("/jobs").json()["count"] == 0
    assert world.operator.get("/jobs").json()["count"] == 1


def test_the_same_key_and_body_make_one_job(world):
    headers = {"Idempotency-Key": "k1"}
    first = world.owner("POST", "/jobs", {"command": "a", "name": "n"}, headers=headers)
    again = world.owner("POST", "/jobs", {"name": "n", "command": "a"}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    refusal(world.owner("POST", "/jobs", {"command": "b"}, headers=headers), 409, "idempotency_conflict")
    other = world.teammate("POST", "/jobs", {"command": "b"}, headers=headers)
    assert other.json()["id"] != first.json()["id"]
    assert Job.objects.count() == 2


def test_a_key_of_one_tenant_opens_nothing_in_another(world):
    from portal.people.tenants.services import membership_add

    membership_add(user=world.users["lena"], tenant=world.tenants["speech-lab"], actor=None)
    headers = {"Idempotency-Key": "k"}
    vision = world.caller("lena", tenant=world.tenants["vision-lab"])
    speech = world.caller("lena", tenant=world.tenants["speech-lab"])
    job = vision("POST", "/jobs", {"command": "a"}, headers=headers).json()
    refusal(speech("POST", "/jobs", {"command": "a"}, headers=headers), 409, "idempotency_conflict")
    refusal(speech("GET", f"/jobs/{job['id']}"), 404)
    assert speech.get("/jobs").json()["count"] == 0
    assert [tenant["name"] for tenant in speech.get("/me").json()["tenants"]] == ["speech-lab"]
    refusal(speech("POST", "/jobs", {"command": "a", "tenant": "vision-lab"}), 403)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_with_one_key_make_one_job(world):
    answers = []
    gate = threading.Barrier(4)

    def submit():
        try:
            gate.wait()
            answers.append(world.owner("POST", "/jobs", {"command": "a"}, headers={"Idempotency-Key": "both"}))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert (Job.objects.count(), IdempotencyKey.objects.count()) == (1, 1)


def test_pages_and_order(world):
    ids = [world.owner.submit(name=f"n{i % 3}")["id"] for i in range(7)]
    first = world.owner.get("/jobs", page_size=3).json()
    assert (first["count"], first["page"], first["page_size"], first["previous"]) == (7, 1, 3, None)
    seen, url = [row["id"] for row in first["results"]], first["next"]
    while url:
        page = world.owner("GET", url.removeprefix("http://testserver")).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert seen == ids[::-1]
    assert [row["id"] for row in world.owner.get("/jobs", ordering="id").json()["results"]] == ids
    by_name = [row["name"] for row in world.owner.get("/jobs", ordering="name").json()["results"]]
    assert by_name == sorted(by_name)
    assert world.owner.get("/jobs", page=1_000_000, page_size=500).json()["results"] == []


def test_filters(world):
    a = world.owner.submit(name="train-a", category="cv", labels={"run": "7", "odd": 'x"y'})["id"]
    b = world.teammate.submit(name="train-b", labels=["run"])["id"]
    world.owner("POST", f"/jobs/{b}/hold")
    two_days_ago = timezone.now() - timedelta(days=2)
    Job.objects.filter(pk=b).update(submitted_at=two_days_ago)
    JobText.objects.filter(job=b).update(submitted_at=two_days_ago)
    day_ago = (timezone.now() - timedelta(days=1)).isoformat()

    def found(**query):
        return {row["id"] for row in world.owner.get("/jobs", **query).json()["results"]}

    assert found(state="PENDING") == {a}
    assert found(state="PENDING,HELD") == {a, b}
    assert found(owner="tim") == {b}
    assert found(tenant="vision-lab") == {a, b}
    assert found(tenant="speech-lab") == set()
    assert found(category="cv") == {a}
    assert found(name="TRAIN-B") == {b}
    assert found(label="run") == {a, b}
    assert found(label="run=7") == {a}
    assert found(label="run=") == {b}
    assert found(label='odd=x"y') == {a}
    assert found(label="7") == set()
    assert found(since=day_ago) == {a}
    assert found(until=day_ago) == {b}
    assert found(started_since=day_ago) == found(ended_until=day_ago) == found(node="n1") == set()
    Job.objects.filter(pk=a).update(started_at=two_days_ago, ended_at=timezone.now())
    assert found(started_until=day_ago) == found(ended_since=day_ago) == {a}
    assert found(started_since=day_ago) == found(ended_until=day_ago) == set()


def test_a_list_costs_the_same_queries_however_long(world, django_assert_max_num_queries):
    def cost(path):
        world.owner.get(path)  # the token's last use is noted by now
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert world.owner.get(path).status_code == 200
        return len(queries)

    world.owner.submit()
    few = {path: cost(path) for path in ("/jobs", "/nodes", "/rounds")}
    for _ in range(20):
        world.owner.submit()
    assert {path: cost(path) for path in few} == few
    assert few["/jobs"] <= 5


def test_reading_twice_writes_nothing(world):
    world.owner.get("/jobs")
    with CaptureQueriesContext(connection) as queries:
        world.owner.get("/jobs")
    assert all(query["sql"].startswith("SELECT") for query in queries)


def test_failed_tasks_are_retried_by_state(world):
    parent = world.owner.submit(array={"size": 3})
    tasks = Job.objects.filter(array=parent["id"]).order_by("array_index")
    for task, state in zip(tasks, ["OUT_OF_MEMORY", "FAILED", "COMPLETED"], strict=True):
        Job.objects.filter(pk=task.pk).update(state=state, ended_at=timezone.now(), waiting_since=None)
    counts = {"OUT_OF_MEMORY": 1, "FAILED": 1, "COMPLETED": 1}
    Job.objects.filter(pk=parent["id"]).update(state="FAILED", ended_at=timezone.now(), array_counts=counts)
    path = f"/jobs/{parent['id']}/retry"
    refusal(world.owner("POST", f"{path}?state=COMPLETED"), 400, field="state")
    refusal(world.outsider("POST", path), 404, "not_found")
    refusal(world.owner("POST", f"{path}?state=TIMEOUT"), 409, "nothing_failed")
    answer = world.teammate("POST", f"{path}?state=OUT_OF_MEMORY").json()
    assert (answer["state"], answer["array_counts"]) == ("RUNNING", {"COMPLETED": 1, "FAILED": 1, "PENDING": 1})
    assert world.owner("POST", f"/jobs/{parent['id']}_1/retry").json()["state"] == "PENDING"
    refusal(world.owner("POST", path), 409, "nothing_failed")
