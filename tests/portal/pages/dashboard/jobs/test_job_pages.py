"""The jobs' pages over the real views, services and SQLite: the view of each cast, and a refusal of bad input that says what is wrong."""

import json
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import Node
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services.control import job_cancel
from portal.work.jobs.services.logs import log_append
from portal.work.jobs.states import JobState
from tests.portal.given import Cluster, member, operator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world():
    return Cluster.make()


@pytest.fixture
def owner(client, world):
    client.force_login(world.owner)
    return client


def outsider_of(client):
    client.force_login(member("otto", Tenant.objects.create(name="others")))
    return client


PAGES = ("job-detail", "job-tasks", "job-log", "job-log-download", "job-explain")


@pytest.mark.parametrize("name", PAGES)
def test_a_foreign_job_answers_as_a_missing_one(client, world, name):
    job = world.submit()
    outsider_of(client)
    foreign = client.get(reverse(name, args=[job.number]))
    missing = client.get(reverse(name, args=["987654"]))
    assert foreign.status_code == missing.status_code == 404


@pytest.mark.parametrize("verb", ["cancel", "hold", "release", "requeue", "retry"])
def test_an_outsider_changes_nothing(client, world, verb):
    job = world.submit()
    assert outsider_of(client).post(reverse("job-action", args=[job.number, verb])).status_code == 404
    assert Job.objects.get(pk=job.pk).state == JobState.PENDING


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "It is not ended for that: it stays until its node is back, or an operator declares the node dead."),
        ({"restartable": True}, "Without word this run counts as lost in 15\u00a0min"),
    ],
)
def test_a_job_whose_node_is_silent_says_so_and_what_follows(owner, world, fields, words):
    attempt = world.running(**fields)
    page = reverse("job-detail", args=[attempt.job.number])
    assert "has not heard" not in owner.get(page).content.decode()
    Node.objects.update(last_contact_at=timezone.now() - timedelta(minutes=3))
    shown = owner.get(page).content.decode()
    assert "Berth has not heard n1 for 3\u00a0min, so what is shown here may be old" in shown
    assert words in shown


def test_a_teammate_sees_and_cancels(client, world):
    job = world.submit(name="ours")
    client.force_login(member("tom", world.tenant))
    assert b"ours" in client.get(reverse("job-list")).content
    client.post(reverse("job-action", args=[job.number, "cancel"]))
    assert Job.objects.get(pk=job.pk).state == JobState.CANCELLED


def test_the_list_costs_the_same_queries_for_two_jobs_and_forty(owner, world, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def count():
        with CaptureQueriesContext(connection) as found:
            assert owner.get(reverse("job-list")).status_code == 200
        return len(found)

    world.running()
    world.submit()
    owner.get(reverse("job-list"))
    few = count()
    for _ in range(38):
        world.submit()
    assert count() == few


@pytest.mark.parametrize(
    ("query", "field"), [("sort=nonsense", "sort"), ("page=0", "page"), ("page=x", "page"), ("state=ODD", "state")]
)
def test_the_list_refuses_an_address_that_means_nothing(owner, query, field):
    answer = owner.get(reverse("job-list") + "?" + query, headers={"Accept": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field


def test_filters_narrow_the_list(owner, world):
    world.submit(name="alpha")
    job_cancel(job=world.submit(name="beta"), actor=world.owner)
    text = owner.get(reverse("job-list") + "?state=CANCELLED").content.decode()
    assert "beta" in text
    assert "alpha" not in text
    assert "alpha" in owner.get(reverse("job-list") + "?q=alph").content.decode()


def test_the_page_of_a_waiting_job_says_why(owner, world):
    job = world.submit(gpus=4)
    world.running(gpus=2)
    planning_run()
    text = owner.get(reverse("job-detail", args=[job.number])).content.decode()
    assert "4 GPUs, 2 free." in text
    assert "Not known yet" in text


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({"reason": "exit", "exit_code": 0}, "Completed"),
        ({"reason": "exit", "exit_code": 127}, "Its command was not found."),
        ({"reason": "exit", "signal": 11}, "a library that does not fit its node"),
        ({"reason": "exit", "signal": 9}, "often because its node ran out of memory"),
        ({"reason": "out_of_memory", "exit_code": None, "detail": "2100 of 2048 MiB"}, "Say how much memory it needs."),
        ({"reason": "time_limit", "exit_code": None}, "Say how much time it needs."),
        ({"reason": "lost", "exit_code": None}, "run again by themselves"),
    ],
)
def test_the_page_of_an_ended_job_gives_cause_and_remedy(owner, world, end, says):
    attempt = world.running()
    world.end(attempt, **end)
    assert says in owner.get(reverse("job-detail", args=[str(attempt.job_id)])).content.decode()


def lines(client, job, **query):
    return client.get(reverse("job-log", args=[job]), query).json()


def written(world, attempt, text, *, stream="stdout", offset=0):
    data = text.encode()
    log_append(node=world.node, key=attempt.key, epoch=attempt.epoch, rank=0, stream=stream, offset=offset, data=data)
    return offset + len(data)


def test_the_log_is_read_on_from_its_cursor_in_whole_lines(owner, world):
    attempt = world.running()
    job = str(attempt.job_id)
    end = written(world, attempt, "one\ntwo\nthr")
    first = lines(owner, job)
    assert [line["text"] for line in first["lines"]] == ["one", "two"]
    assert lines(owner, job, offset=first["next"])["lines"] == []
    written(world, attempt, "WARNING: late\n", stream="stderr")
    end = written(world, attempt, "ee\nrest", offset=end)
    second = lines(owner, job, offset=first["next"])
    assert sorted(line["text"] for line in second["lines"]) == ["WARNING: late", "three"]
    assert [line["n"] for line in second["lines"]] == [3, 4]
    world.end(attempt)
    last = lines(owner, job, offset=second["next"])
    assert [line["text"] for line in last["lines"]] == ["rest"]
    assert last["ended"]
    assert lines(owner, job, offset=last["next"])["lines"] == []


def test_the_log_of_one_stream_and_a_bad_cursor(owner, world):
    attempt = world.running()
    job = str(attempt.job_id)
    written(world, attempt, "out\n")
    written(world, attempt, "err\n", stream="stderr")
    assert [line["text"] for line in lines(owner, job, stream="stderr")["lines"]] == ["err"]
    bad = owner.get(reverse("job-log", args=[job]), {"offset": "1.2"}, headers={"Accept": "application/json"})
    assert (bad.status_code, bad.json()["error"]["field"]) == (400, "offset")


def test_a_download_is_the_whole_output(owner, world):
    attempt = world.running()
    written(world, attempt, "a\nb\n")
    answer = owner.get(reverse("job-log-download", args=[str(attempt.job_id)]))
    assert answer.getvalue() == b"a\nb\n"


def test_csv_defuses_formulas(owner, world):
    world.submit(name="=HYPERLINK(1)")
    assert "'=HYPERLINK(1)" in owner.get(reverse("job-csv")).getvalue().decode()


FORM = {"command": "python train.py", "gpu_mode": "set", "gpus": ["1", "2"]}


def test_the_form_submits_what_rest_would(owner, world):
    more = {
        "memory_mib": "2 GiB",
        "time_limit_s": "30 min",
        "environment": "A=1\nB=x=y",
        "labels": "team=cv",
        "checkpointable": "true",
        "instrumented": "true",
    }
    answer = owner.post(reverse("job-submit"), FORM | more)
    job = Job.objects.latest("pk")
    assert answer.url == reverse("job-detail", args=[job.number])
    assert (job.gpus, job.memory_mib, job.time_limit_s, job.checkpointable) == ([1, 2], 2048, 1800, True)
    assert job.instrumented
    assert job.payload.environment == {"A": "1", "B": "x=y"}


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\u2029", "\xa0"])
def test_no_sign_but_a_line_feed_cuts_a_line_of_the_form(owner, world, sign):
    """`str.splitlines` knows ten ends of a line; a value that has one was cut, or refused as a line without `=`."""
    wanted = {"A": f"1{sign}B=2", "C": "3"}
    env = "\r\n".join(f"{name}={value}" for name, value in wanted.items())
    owner.post(reverse("job-submit"), FORM | {"environment": env})
    assert Job.objects.get().payload.environment == wanted
    refused = owner.post(reverse("job-submit"), FORM | {"artefacts": "out\vx/*\r\nlog"})
    assert "control" in refused.context["fields"]["artefacts"]["error"]


def test_the_form_takes_a_grace_and_the_page_shows_it_and_that_it_was_overrun(owner, world):
    owner.post(reverse("job-submit"), FORM | {"grace_s": "2 min", "gpus": ["1", "2"], "checkpointable": "on"})
    job = Job.objects.get()

    def page():
        return owner.get(reverse("job-detail", args=[job.number])).content.decode()

    assert job.grace_s == owner.get(f"/api/v1/jobs/{job.number}").json()["grace_s"] == 120
    assert owner.get(reverse("job-submit") + f"?from={job.pk}").context["fields"]["grace_s"]["value"] == "2 min"
    assert "120 s" in page()
    Job.objects.update(overran_epoch=3)
    assert "120 s, overrun by run 3; not resized again" in page()
    answer = owner.post(reverse("job-submit"), FORM | {"grace_s": "700"})
    assert "at most 600" in answer.content.decode()


@pytest.mark.parametrize(
    ("rate", "stored"),
    [
        ({"learning_rate": "1e-4"}, {"at": 1, "value": 1e-4, "rule": "none"}),
        (
            {"learning_rate": "4e-4", "learning_rate.at": "4", "learning_rate.rule": "sqrt"},
            {"at": 4, "value": 4e-4, "rule": "sqrt"},
        ),
        ({"learning_rate": "1: 1e-4, 2: 2e-4"}, {"1": 1e-4, "2": 2e-4}),
        ({"learning_rate": ""}, None),
    ],
)
def test_the_form_takes_each_kind_of_learning_rate_and_relaunch_keeps_it(owner, rate, stored):
    owner.post(reverse("job-submit"), FORM | rate)
    first = Job.objects.get()
    assert first.learning_rate == stored
    page = owner.get(reverse("job-submit") + f"?from={first.pk}").context["fields"]
    kept = {name: page[name]["value"] for name in ("learning_rate", "learning_rate.at")}
    rules = [choice["value"] for choice in page["learning_rate.rule"]["choices"] if choice["selected"]]
    owner.post(reverse("job-submit"), FORM | kept | {"learning_rate.rule": rules[0]})
    assert Job.objects.latest("pk").learning_rate == stored


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": ""}, "say what to run"),
        ({"learning_rate": "fast"}, "4e-4, or one for each size"),
        ({"learning_rate": "1e-4", "learning_rate.rule": "linear"}, "needs a number of GPUs"),
        ({"learning_rate.at": "4"}, "is given without a learning rate"),
        ({"learning_rate": "1: 1e-4"}, "one rate for each number of GPUs"),
        ({"gpus": []}, "Choose a number of GPUs"),
        ({"memory_mib": "much"}, "24 GiB or 512 MiB"),
        ({"priority": "5"}, "priority ceiling"),
        ({"environment": "no equals sign"}, "NAME=value"),
        ({"gpus": ["64"]}, "64 GPUs of one type"),
    ],
)
def test_a_refused_form_says_what_is_wrong_keeps_its_values_and_changes_nothing(owner, change, says):
    answer = owner.post(reverse("job-submit"), FORM | {"name": "kept-name"} | change)
    text = answer.content.decode()
    assert 400 <= answer.status_code < 500
    assert says in text
    assert "kept-name" in text
    assert not Job.objects.exists()


def test_relaunch_fills_the_form(owner, world):
    job = world.submit(name="again", gpus=[1, 4], memory_mib=1024, command="echo relaunched")
    text = owner.get(reverse("job-submit") + f"?from={job.pk}").content.decode()
    assert "echo relaunched" in text
    assert "1 GiB" in text


def test_a_dry_run_says_where_and_changes_nothing(owner, world):
    before = Job.objects.count()
    text = owner.post(reverse("job-dry-run"), FORM).content.decode()
    assert "Starts at once" in text
    assert f"on {world.node.name} with 2 GPUs" in text
    assert "curl -X POST" in text
    assert Job.objects.count() == before


def test_a_dry_run_of_a_job_that_would_wait_says_when_and_why(owner, world):
    world.started(gpus=4)
    world.submit(gpus=1)
    planning_run()
    text = owner.post(reverse("job-dry-run"), FORM).content.decode()
    assert "Starts about <time" in text
    assert "1 GPU, none free" in text


def test_bulk_says_how_many_it_applied_to(owner, world):
    waiting, ended = world.submit(), world.submit()
    job_cancel(job=ended, actor=world.owner)
    answer = owner.post(
        reverse("job-bulk"), {"action": "hold", "job": [waiting.number, ended.number]}, follow=True
    ).content.decode()
    assert "Held: 1 job." in answer
    assert "has ended" in answer
    assert Job.objects.get(pk=waiting.pk).state == JobState.HELD


def test_bulk_redirects_only_within_the_site(owner, world):
    job = world.submit()
    answer = owner.post(reverse("job-bulk"), {"action": "hold", "job": [job.number], "next": "//evil.example"})
    assert answer.url.startswith("/jobs/")


def test_figures_are_json_and_unknown_ones_missing(owner, world):
    attempt = world.running()
    for name in ("gpu", "cores", "memory"):
        assert "lines" in owner.get(reverse("job-figure", args=[str(attempt.job_id), name])).json()
    assert owner.get(reverse("job-figure", args=[str(attempt.job_id), "other"])).status_code == 404


def test_the_operator_sees_every_tenants_jobs(client, world):
    world.submit(name="theirs")
    client.force_login(operator())
    assert b"theirs" in client.get(reverse("job-list")).content


def test_explain_json_is_the_object_behind_the_sentence(owner, world):
    job = world.submit(gpus=4)
    planning_run()
    found = json.loads(owner.get(reverse("job-explain", args=[job.number])).content)
    assert found["job"] == job.number
    assert {"rank", "age_s", "latency_ratio", "figures"} <= set(found)


def recorded(world, attempt, offset=0, **changes):
    from portal.planning.estimation.records import records_apply

    record = (
        {"iterations": 10, "samples": 640.0, "seconds": 2.0, "done": 500.0, "total": 2000.0, "batch": 64}
        | {
            "world": 1,
            "parameters": None,
            "rows": [],
        }
        | changes
    )
    key = {
        "attempt": attempt.key,
        "epoch": attempt.epoch,
        "rank": 0,
        "offset": offset,
        "next_offset": offset + 9,
        "dropped": 3,
    }
    assert records_apply(node=world.node, parts=[key | {"records": [record]}])[0]["code"] is None


def test_the_page_and_rest_show_the_measured_speed_beside_the_predicted_and_say_when_it_was_assumed(owner, world):
    first, second = world.running(model="vgg"), world.running(model="vgg")
    silent = world.running()
    recorded(world, first, saved=180.0)
    recorded(world, second, samples=704.0)
    page = lambda attempt: owner.get(reverse("job-detail", args=[str(attempt.job_id)])).content.decode()  # noqa: E731
    text = page(first)
    assert "assumed: nothing was known" in text
    assert "25%" in text
    assert "Records dropped" in text
    assert "Not in a checkpoint" in text
    assert "samples, under a minute of work" in text
    text = page(second)
    assert "352.0" in text  # measured
    assert "320.0" in text  # predicted from the first
    assert "10.0\u00a0%" in text
    assert "measured on this node" in text
    assert "records no iterations, so its speed is assumed" in page(silent)
    assert (
        "<h2>Speed</h2>" not in owner.get(reverse("job-detail", args=[str(world.submit(gpus=4).pk)])).content.decode()
    )
    assert "25\u00a0%" in owner.get(reverse("job-list")).content.decode()
    job = owner.get(f"/api/v1/jobs/{second.job_id}").json()
    assert job["progress"]["fraction"] == 0.25
    assert job["attempts"][0]["speed"]["predicted_source"] == "entity"
    assert job["attempts"][0]["speed"]["samples_lost"] is None
    stopped = owner.get(f"/api/v1/jobs/{first.job_id}").json()["attempts"][0]["speed"]
    assert (stopped["samples_saved"], stopped["samples_lost"], stopped["lost_s"]) == (180.0, 320.0, 1.0)
    assert "320 samples lost at its end" not in page(first), "it may still save"
    world.end(first, exit_code=1)
    assert "320 samples lost at its end" in page(first)
    recorded(world, first, saved=500.0, offset=9)
    assert "samples: all is saved" in page(first)
    assert owner.get(f"/api/v1/jobs/{silent.job_id}").json()["attempts"][0]["speed"] is None


def test_the_page_and_rest_show_where_a_job_was_profiled_and_what_was_found(owner, world):
    job = world.submit(gpus=[1, 2], model="vgg", instrumented=True)
    planning_run()
    page = reverse("job-detail", args=[job.number])
    waiting = owner.get(page).content.decode()
    assert "Its speed is being measured." in waiting
    assert "nothing recorded" in waiting
    profile = job.attempts.profiles().get()
    recorded(world, profile, rows=[[0.3, 0.1, 0.2, 0.05, None, None, 0.65]] * 16, samples=128.0)
    written(world, profile, "measuring\n")
    world.end(profile)
    text = owner.get(page).content.decode()
    assert "data 300 ms, forward 100 ms, backward 200 ms, update 50 ms, loads data before it computes" in text
    shown = owner.get(f"/api/v1/jobs/{job.pk}").json()
    assert (shown["attempts"], shown["instrumented"]) == ([], True)
    (answer,) = shown["profiles"]
    assert (answer["state"], answer["gpu_type"], answer["parts"][0]["node"]) == ("COMPLETED", "A100", "n1")
    assert answer["speed"]["samples_per_s"] == 64.0
    download = reverse("job-log-download", args=[job.number]) + "?profile=1"
    assert download in text
    assert owner.get(download).getvalue() == b"measuring\n"
    logs = f"/api/v1/jobs/{job.pk}/logs"
    assert owner.get(logs, {"profile": "1"}).json()["text"] == "measuring\n"
    assert owner.get(logs).json()["attempt"] is None
    assert owner.get(logs, {"profile": "2"}).status_code == 404
    assert owner.get(logs, {"profile": "1", "attempt": "1"}).json()["error"]["field"] == "profile"


def test_a_plannings_page_names_its_profiles_to_those_who_may_see_the_job(client, world):
    job = world.submit(gpus=[1, 2], instrumented=True, name="vgg-secret")
    planning = planning_run()
    url, rest = reverse("planning-detail", args=[planning.number]), f"/api/v1/plannings/{planning.number}"
    client.force_login(world.owner)
    assert "on one GPU of A100, n1, for 60 s at most" in client.get(url).content.decode()
    assert client.get(rest).json()["outcomes"]["profiles"][0]["job"] == {"number": job.number, "name": "vgg-secret"}
    outsider_of(client)
    assert "vgg-secret" not in client.get(url).content.decode()
    assert client.get(rest).json()["outcomes"]["profiles"][0]["job"]["number"] is None
