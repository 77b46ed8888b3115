"""A sweep: another process reads its tasks' files once, and its page compares them only for their owner."""

import csv
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.foundation.events.models import OutboxMessage
from portal.pages.dashboard.jobs.array.query import TaskQuery
from portal.pages.dashboard.jobs.array.sweep import sweep_of
from portal.people.tenants.models import Tenant
from portal.work.artefacts.models import Artefact
from portal.work.jobs.models import Job
from portal.work.previews.asking import Busy, TooCostly
from portal.work.sweeps import reading
from portal.work.sweeps.models import TaskMetric, TaskReading
from portal.work.sweeps.selectors import columns_of
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender

pytestmark = pytest.mark.django_db


def metrics(*losses):
    return "".join(
        json.dumps({"step": step, "loss": loss, "acc": 1 - loss / 4}) + "\n" for step, loss in enumerate(losses)
    ).encode()


TASKS = (
    ({"lr": 0.001, "opt": "adam", "batch": 64}, metrics(2.0, 1.0, 0.5)),
    ({"lr": 0.0001, "opt": "adam", "batch": 64}, metrics(2.0, 0.4, 0.25)),
    ({"lr": 0.1, "opt": "sgd", "batch": 64}, metrics(2.0, 1.9)),
)


@pytest.fixture
def big(cluster):
    cluster.node = given.node_make("big", gpus=0, cores=400)
    return cluster


@pytest.fixture
def owner(client, big):
    client.force_login(big.owner)
    return client


@pytest.fixture
def sweep(big):
    """Three tasks that wrote curves and parameters; the third one failed."""
    parent = big.submit(gpus=0, array={"size": 3}, name="sweep")
    for task, (parameters, curves) in zip(Job.objects.filter(array=parent).order_by("array_index"), TASKS, strict=True):
        sender = Sender(big, big.start(task, gpus=0))
        sender.send("params.json", json.dumps(parameters).encode())
        sender.send("metrics.jsonl", curves)
    failed = Job.objects.filter(array=parent, array_index=2)
    failed.update(state="FAILED", exit_code=1, ended_at=timezone.now())
    Job.objects.filter(pk=parent.pk).update(array_counts={"RUNNING": 2, "FAILED": 1})
    return Job.objects.get(pk=parent.pk)


def read_all(parent):
    """Read the wanted arrays, as beat's task does."""
    count = 0
    while tasks := list(reading.unread(parent.pk)[: reading.AT_ONCE]):
        reading._read(tasks)
        count += len(tasks)
    return count


def test_parameters_and_metrics_are_read_once_and_again_when_a_file_is_newer(sweep, big):
    assert read_all(sweep) == 3
    first = TaskReading.objects.get(task__array_index=0, array=sweep)
    assert first.parameters == {"lr": 0.001, "opt": "adam", "batch": 64}
    loss = TaskMetric.objects.get(array=sweep, name="loss", task__array_index=1)
    assert (loss.last, loss.low, loss.high, loss.step, loss.points) == (
        0.25,
        0.25,
        2.0,
        2.0,
        [[0, 1, 2], [2.0, 0.4, 0.25]],
    )
    assert read_all(sweep) == 0
    task = Job.objects.get(array=sweep, array_index=0)
    Sender(big, task.attempts.get()).send("metrics.jsonl", metrics(2.0, 1.0, 0.5, 0.125), ns=NS + 1)
    assert read_all(sweep) == 1
    assert TaskMetric.objects.get(array=sweep, name="loss", task=task).last == 0.125


def test_a_file_dated_before_a_reading_that_could_not_see_it_yet_is_read_too(big):
    """A content is dated in a transaction, which ends some time later; a reading may come between."""
    parent = big.submit(gpus=0, array={"size": 1}, name="sweep")
    task = Job.objects.get(array=parent)
    sender = Sender(big, big.start(task, gpus=0))
    sender.send("metrics.jsonl", metrics(2.0, 1.0))
    dated = timezone.now()
    assert read_all(parent) == 1
    sender.send("params.json", b'{"lr": 0.1}')
    Artefact.objects.filter(job=task, path="params.json").update(kept_at=dated)
    assert read_all(parent) == 1
    assert TaskReading.objects.get(task=task).parameters == {"lr": 0.1}
    assert read_all(parent) == 0


def test_the_page_tells_the_best_task_and_sorts_failed_ones_first(sweep, owner):
    read_all(sweep)
    html = owner.get(reverse("job-detail", args=[sweep.number])).content.decode()
    assert re.search(r"Best so far</h2><span class=\"b-note\">task 1<", html)
    assert ">0.250<" in html
    assert [int(found) for found in re.findall(r'<tr data-job[^>]*data-task="(\d)"', html)] == [2, 1, 0]
    heads = re.findall(r'<th scope="col"[^>]*><a href="[^"]*">([^<]*)', html)
    assert [head.split()[0] for head in heads] == ["Task", "lr", "opt", "acc", "loss", "steps", "ran"]
    assert "batch" not in heads  # all tasks have the same
    turned = owner.get(reverse("job-detail", args=[sweep.number]), {"sort": "-p:lr"}).content.decode()
    assert [int(found) for found in re.findall(r'data-task="(\d)"', turned)] == [2, 0, 1]


def test_the_plot_draws_each_task_and_names_the_best(sweep, owner):
    read_all(sweep)
    url = reverse("array-figure", args=[sweep.number])
    drawn = owner.get(url, {"metric": "loss"}).json()
    assert [(line["name"], line["token"], line["mark"], line["end"]) for line in drawn["lines"]] == [
        ("task 2", "fail", "cross", False),
        ("task 0", "run", "dot", False),
        ("task 1", "plot-1", "dot", "task 1"),
    ]
    against = owner.get(url, {"metric": "loss", "against": "lr"}).json()
    assert against["x"] == {"kind": "value", "log": True}
    assert sorted(line["x"][0] for line in against["lines"]) == [0.0001, 0.001, 0.1]
    assert owner.get(url, {"metric": "none"}).status_code == 404


def test_the_best_one_is_run_again_with_its_parameters_as_variables(sweep, owner):
    read_all(sweep)
    html = owner.get(reverse("job-submit"), {"from": sweep.number, "task": 1}).content.decode()
    assert "lr=0.0001\nopt=adam\nbatch=64" in html.replace("&#10;", "\n")
    assert not re.search(r'name="array.size"[^>]*value="3"', html)


def test_csv_has_every_task_with_all_that_it_told(sweep, owner):
    read_all(sweep)
    answer = owner.get(reverse("array-csv", args=[sweep.number]))
    rows = list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))
    assert [row["task"] for row in rows] == ["0", "1", "2"]
    assert (rows[1]["lr"], rows[1]["opt"], rows[1]["loss last"], rows[1]["loss highest"]) == (
        "0.0001",
        "adam",
        "0.25",
        "2.0",
    )


def test_another_tenant_finds_none_of_it(sweep, client, big):
    read_all(sweep)
    Tenant.objects.create(name="other-lab")
    client.force_login(given.member("other", Tenant.objects.get(name="other-lab")))
    for name in ("job-detail", "array-figure", "array-csv"):
        assert client.get(reverse(name, args=[sweep.number])).status_code == 404


def test_the_page_costs_the_same_for_any_number_of_tasks(sweep, owner):
    read_all(sweep)
    with CaptureQueriesContext(
        connection,
    ) as few:
        owner.get(reverse("job-detail", args=[sweep.number]))
    TaskMetric.objects.bulk_create(
        TaskMetric(task_id=task, array=sweep, name=f"extra/{place}", last=1, low=1, high=1, step=1, points=[[1], [1]])
        for task in Job.objects.filter(array=sweep).values_list("pk", flat=True)
        for place in range(30)
    )
    with CaptureQueriesContext(connection) as many:
        owner.get(reverse("job-detail", args=[sweep.number]))
    assert len(many) == len(few)


ODD = (
    b"",
    b"[1, 2]",
    b"null",
    b"{" * 9000,
    b"[" * 9000,
    b'{"lr": 1e999, "x": NaN, "n": ' + b"9" * 5000 + b"}",
    json.dumps({"a": {"b": {"c": 1}}, "d" * 5000: "e" * 5000, "\x00n": "\ud800", "t": True, "none": None}).encode(),
    json.dumps({f"p{place}": place for place in range(900)}).encode(),
    json.dumps({"": 1, "deep": {"": 1}, "\u202ertl": "\u2066x"}).encode(),
)


def test_odd_parameters_are_bounded_and_harm_nobody(sweep, big, owner, subtests):
    task = Job.objects.get(array=sweep, array_index=0)
    for place, content in enumerate(ODD):
        with subtests.test(content[:30]):
            Sender(big, task.attempts.get()).send("params.json", content, ns=NS + 1 + place)
            read_all(sweep)
            told = TaskReading.objects.get(task=task).parameters
            assert len(told) <= 32
            assert all(isinstance(value, bool | int | float | str) for value in told.values())
            assert len(json.dumps(told)) < 16_000
            assert "" not in told
            assert not re.search("[\u202e\u2066]", str(told))
            assert owner.get(reverse("job-detail", args=[sweep.number])).status_code == 200
            assert TaskMetric.objects.filter(task=task, name="loss").exists()


def test_what_takes_too_much_is_read_by_itself_and_noted(sweep, monkeypatch):
    asked = reading.asked

    def dear(key, what, opened):
        files = opened()
        names = {each.name.partition("/")[0] for each in files}
        if len(names) > 1 or str(Job.objects.get(array=sweep, array_index=0).pk) in names:
            raise TooCostly("too much")
        return asked(key, what, lambda: files)

    monkeypatch.setattr(reading, "asked", dear)
    read_all(sweep)
    assert TaskReading.objects.filter(array=sweep).count() == 3
    assert sorted(TaskMetric.objects.filter(array=sweep, name="loss").values_list("task__array_index", flat=True)) == [
        1,
        2,
    ]


def test_wrong_addresses_are_refused_with_the_field(sweep, owner, subtests):
    for query in ({"sort": "loss"}, {"sort": "m:"}, {"value": "worst"}, {"show": "x:y"}, {"metric": "a" * 300}):
        with subtests.test(str(query)[:40]):
            answer = owner.get(reverse("job-detail", args=[sweep.number]), query)
            assert answer.status_code == 400
            assert next(iter(query)) in answer.content.decode()


def test_a_name_with_quotes_sorts_too(sweep, big, owner):
    task = Job.objects.get(array=sweep, array_index=0)
    Sender(big, task.attempts.get()).send("params.json", json.dumps({"a\"b'c__d%s": 1}).encode(), ns=NS + 9)
    read_all(sweep)
    assert owner.get(reverse("job-detail", args=[sweep.number]), {"sort": "p:a\"b'c__d%s"}).status_code == 200
    assert sweep_of(sweep, TaskQuery()) is not None


class Noted:
    """In the place of Redis: what pages noted as wanted."""

    def __init__(self, *arrays):
        self.arrays = arrays

    def zremrangebyscore(self, *_):
        pass

    def zrange(self, *_):
        return [str(array.pk).encode() for array in self.arrays]


def test_a_task_that_writes_all_the_time_is_read_once_in_a_run(sweep, monkeypatch):
    monkeypatch.setattr(reading, "client", lambda _: Noted(sweep))
    noted, looks = reading._read, []

    def written_again(tasks):
        looks.append(len(tasks))
        done = noted(tasks)
        Artefact.objects.update(kept_at=timezone.now())
        return done

    monkeypatch.setattr(reading, "_read", written_again)
    assert reading.sweeps_read() == 3
    assert looks == [3]
    assert reading.sweeps_read() == 3


def test_an_open_page_is_told_of_what_was_read_and_keeps_its_array_wanted(sweep, owner, monkeypatch):
    monkeypatch.setattr(reading, "client", lambda _: Noted(sweep))
    told = OutboxMessage.objects.filter(stream=f"job:{sweep.pk}")
    before = told.count()
    assert [reading.sweeps_read(), reading.sweeps_read()] == [3, 0]
    assert told.count() == before + 1, "once, though no task moves any more"
    monkeypatch.undo()
    html = owner.get(reverse("job-detail", args=[sweep.number])).content.decode()
    (again_s,) = re.findall(r'/fragments/array[^>]*data-live-refresh="(\d+)"', html)
    assert int(again_s) < reading.WANTED_S


def test_while_nobody_can_look_a_run_ends_at_once_and_notes_nothing(sweep, monkeypatch):
    monkeypatch.setattr(reading, "client", lambda _: Noted(sweep))
    asked = []

    def busy(*_):
        asked.append(1)
        raise Busy("later")

    monkeypatch.setattr(reading, "asked", busy)
    assert reading.sweeps_read() == 0
    assert asked == [1]
    assert not TaskReading.objects.exists()


def test_names_that_each_task_has_of_its_own_make_no_column_each(sweep, owner):
    read_all(sweep)
    tasks = list(Job.objects.filter(array=sweep))
    TaskMetric.objects.bulk_create(
        TaskMetric(task=tasks[0], array=sweep, name=f"own/{place}", last=1, low=1, high=1, step=1, points=[[1], [1]])
        for place in range(500)
    )
    TaskReading.objects.filter(task=tasks[0]).update(parameters={f"mine{place}": place for place in range(500)})
    columns = columns_of(sweep)
    assert len(columns.metrics) <= 64
    assert len(columns.parameters) <= 64
    assert {"loss", "acc"} <= set(columns.metrics), "those of the most tasks stay"
    assert "lr" in columns.parameters
    assert len(owner.get(reverse("job-detail", args=[sweep.number])).content) < 150_000
