"""Nodes, rounds, plannings and figures, from a real planning of real jobs."""

import copy
import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.contact import node_problems
from portal.cluster.services.operating import node_drain
from portal.planning.rounds.models import OperatorSetting, Planning, Round
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import LogChunk
from tests.portal import given
from tests.portal.foundation.api.conftest import refusal, world_make
from tests.portal.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
def planned(world):
    """One job of each tenant placed, one too large for what is left: the GPUs are one array, with one window."""
    OperatorSetting.objects.create(name="arrays", value="off")
    ids = [caller.submit(gpus=4)["id"] for caller in (world.owner, world.outsider, world.owner)]
    planning_run()
    return ids


@pytest.mark.parametrize(("sweep", "placed"), [("on", [2]), ("off", [1, 1])])
def test_what_the_windows_leave_idle_is_swept_up_in_the_same_planning_or_else_in_one_that_follows(world, sweep, placed):
    """One node is gpu-large's: its window holds one job of 4, and the next one borrows the other node at once."""
    OperatorSetting.objects.create(name="sweep", value=sweep)
    for _ in range(2):
        world.owner.submit(gpus=4, expected_duration_s=3600)
    planning_run()
    assert [planning.placed for planning in Planning.objects.order_by("number")] == placed


def test_a_placed_job_says_where(world, planned):
    job = world.owner("GET", f"/jobs/{planned[0]}").json()
    assert job["state"] == "STARTING"
    (attempt,) = job["attempts"]
    (part,) = attempt["parts"]
    assert part["gpus"] == [0, 1, 2, 3]
    assert job["nodes"] == [part["node"]]
    assert world.owner("GET", f"/jobs/{planned[0]}/explain").json()["placement"]


def test_a_list_of_nodes_reads_no_wide_column_and_costs_the_same_however_long(world, planned):
    def asked():
        with CaptureQueriesContext(connection) as queries:
            assert world.owner.get("/nodes", page_size=500).status_code == 200
        return [query["sql"] for query in queries]

    before = asked()
    assert not [sql for sql in before if '"cluster_node"."software"' in sql or '"cluster_node"."live"' in sql]
    for n in range(5):
        given.node_make(f"more-{n}")
    assert len(asked()) == len(before)


def test_what_an_agent_tells_the_operator_is_not_told_to_tenants(world):
    """A problem can name any tenant's job, directory and file; who drained a node is an operator's name."""
    node, told = (
        world.nodes[0],
        "Files that a job left cannot be removed: [Errno 30] '/jobs/7041-run-1/merger-plan.txt'",
    )
    node_problems(node=node, problems=[{"at": 1.0, "subject": "remains 7041-run-1", "detail": told}])
    node_drain(node=node, actor=world.users["root"], reason="new disk")
    seen = {}
    for name, caller in (("lena", world.owner), ("root", world.operator)):
        browser = Client()
        browser.force_login(world.users[name], backend="django.contrib.auth.backends.ModelBackend")
        page = browser.get(f"/cluster/{node.name}/").content.decode()
        events = browser.get("/cluster/").content.decode()
        rest = caller("GET", f"/nodes/{node.name}").json()["events"]
        seen[name] = (page + events + json.dumps(rest), {event["kind"]: event for event in rest})
    text, events = seen["lena"]
    assert "merger-plan" not in text
    assert "7041-run-1" not in text
    assert (events["problem"]["detail"], events["drained"]["actor_name"]) == ("told to the operators", "an operator")
    assert events["drained"]["detail"] == "new disk"
    text, events = seen["root"]
    assert text.count("merger-plan") == 4, "its page's problem and event, the cluster's event, and REST's"
    assert events["drained"]["actor_name"] == "root"


def test_nodes_show_own_jobs_and_hide_others(world, planned):
    rows = {row["name"]: row for row in world.owner.get("/nodes").json()["results"]}
    assert list(rows) == ["cpu-01", "rtx-01", "rtx-02"]
    assert [rows[name]["gpus_allocated"] for name in rows] == [0, 4, 4]
    assert {row["health"] for row in rows.values()} == {"up"}
    jobs = set()
    for name in ("rtx-01", "rtx-02"):
        node = world.owner("GET", f"/nodes/{name}").json()
        assert all(gpu["allocated"] for gpu in node["gpu_list"])
        jobs |= {gpu["job"] for gpu in node["gpu_list"]} | {part["job"] for part in node["running"]}
    assert jobs == {planned[0], None}
    seen = {part["job"] for name in rows for part in world.operator("GET", f"/nodes/{name}").json()["running"]}
    assert seen == set(planned[:2])
    restricted = world.caller("root", scopes=["cluster:read"], tenant=world.tenants["speech-lab"])
    seen = {part["job"] for name in rows for part in restricted("GET", f"/nodes/{name}").json()["running"]}
    assert seen == {planned[1], None}


def test_rounds_plannings_and_their_decisions(world, planned):
    (last,) = world.owner.get("/rounds").json()["results"]
    assert last["placed"] == 2
    shown = world.owner("GET", f"/rounds/{last['number']}").json()
    number = shown["plannings"][0]["number"]
    planning = world.owner("GET", f"/plannings/{number}").json()
    assert (planning["status"], planning["placed"]) == ("applied", 2)
    assert {d["job"] for d in planning["decisions"]} == {planned[0], planned[2], None}
    assert str(planned[1]) not in {d["number"] for d in planning["decisions"]}
    everything = world.operator("GET", f"/plannings/{number}").json()
    assert {d["job"] for d in everything["decisions"]} == set(planned)
    restricted = world.caller("root", scopes=["cluster:read"], tenant=world.tenants["speech-lab"])
    some = restricted("GET", f"/plannings/{number}").json()
    assert {d["job"] for d in some["decisions"]} == {planned[1], None}


def test_a_plannings_decisions_are_read_page_by_page(world, planned):
    path, found = "/plannings/1?page_size=2", []
    while path:
        answer = world.operator("GET", path).json()
        assert len(answer["decisions"]) <= 2
        assert (answer["decisions_previous"] is None) == (not found)
        found += [each["job"] for each in answer["decisions"]]
        path = answer["decisions_next"] and answer["decisions_next"].partition("/api/v1")[2]
    assert len(found) == answer["decisions_count"] == 3
    assert set(found) == set(planned)


def test_figures_now_and_over_time(world, planned):
    figures = world.owner.get("/metrics").json()
    assert figures["now"]["gpus_allocated"] == 8
    (point,) = figures["series"]
    assert point["metrics"]["gpu_active_rate"] == 1.0
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    assert world.owner.get("/metrics", since=later).json()["series"] == []


def test_figures_of_a_range_and_of_its_rounds(world, planned):
    for name in ("1h", "24h", "7d"):
        figures = world.owner.get("/metrics", range=name).json()
        (present,) = figures["rounds"]
        assert (present["from_round"], present["rounds"], present["metrics"]["gpu_active_rate"]) == (1, 1, 1.0)
        assert present["metrics"]["raqlr_24h"] is None
        assert len(figures["series"]) == 1
    assert refusal(world.owner("GET", "/api/v1/metrics?range=2h"), 400)["field"] == "range"
    since = timezone.now().isoformat().replace("+", "%2B")
    assert refusal(world.owner("GET", f"/api/v1/metrics?range=7d&since={since}"), 400)["code"] == "conflict"


def test_a_rounds_figures_outlive_its_plannings(world, planned):
    Round.objects.update(started_at=timezone.now() - timedelta(hours=1))
    planning_run()
    Planning.objects.filter(round__number=1).delete()
    row = world.owner.get("/rounds", ordering="number").json()["results"][0]
    assert (row["plannings"], row["placed"], row["metrics"]["gpu_active_rate"]) == (1, 2, 1.0)
    assert world.owner("GET", "/rounds/1").json()["metrics"]["plannings"] == 1


def test_many_plannings_are_thinned(world, planned):
    first = Planning.objects.get()
    Planning.objects.bulk_create(
        Planning(
            number=first.number + i, round=first.round, started_at=timezone.now(), status="applied", metrics={"x": i}
        )
        for i in range(1, 1201)
    )
    series = world.owner.get("/metrics").json()["series"]
    assert 200 <= len(series) <= 240
    assert series[-1]["planning"] == first.number + 1200


def test_drain_resume_dead(world):
    node = world.operator("POST", "/nodes/rtx-01/drain", {"reason": "new disks"}).json()
    assert (node["health"], node["drain_reason"], node["events"][0]["kind"]) == ("drained", "new disks", "drained")
    assert world.operator("POST", "/nodes/rtx-01/resume").json()["health"] == "up"
    refusal(world.operator("POST", "/nodes/rtx-01/dead", {"reason": "x"}), 409, "node_reachable")
    Node.objects.filter(name="rtx-01").update(last_contact_at=timezone.now() - timedelta(minutes=5))
    assert world.operator("POST", "/nodes/rtx-01/dead", {"reason": "burnt"}).json()["health"] == "dead"
    refusal(world.operator("POST", "/nodes/none/drain", {"reason": "x"}), 404, "not_found")


def test_cordon_and_resume_of_one_gpu(world):
    def told(node):
        return [gpu["cordon_reason"] for gpu in node["gpu_list"] if gpu["cordoned_at"]]

    assert told(world.operator("POST", "/nodes/rtx-01/gpus/1/cordon", {"reason": "a bad fan"}).json()) == ["a bad fan"]
    node = world.operator("POST", "/nodes/rtx-01/gpus/1/resume").json()
    assert (told(node), node["events"][0]["kind"]) == ([], "GPU resumed")
    refusal(world.operator("POST", "/nodes/rtx-01/gpus/1/cordon"), 400, "required")
    refusal(world.operator("POST", "/nodes/rtx-01/gpus/99/resume"), 404, "not_found")
    refusal(world.operator("POST", "/nodes/none/gpus/0/cordon"), 404, "not_found")


class TestLogs:
    @pytest.fixture(scope="class")
    def placed(self, django_db_setup, django_db_blocker):
        """A job that has its place, once for all of these."""
        with lasting(django_db_blocker):
            made = world_make()
            job = made.owner.submit(gpus=4)["id"]
            planning_run()
            yield made, job

    @pytest.fixture
    def world(self, placed, db):
        return copy.deepcopy(placed[0])

    @pytest.fixture
    def log(self, placed, db):
        from portal.work.jobs.models import Job

        self.path = f"/jobs/{placed[1]}/logs"
        attempt = Job.objects.get(pk=placed[1]).attempts.get()
        self.at = timezone.now()
        self.end = 0

        self.errors = 0

        def write(data, minutes=0, stream="stdout"):
            name = "end" if stream == "stdout" else "errors"
            LogChunk.objects.create(
                attempt=attempt,
                rank=0,
                stream=stream,
                offset=getattr(self, name),
                length=len(data),
                data=data,
                at=self.at + timedelta(minutes=minutes),
            )
            setattr(self, name, getattr(self, name) + len(data))

        self.attempt = attempt
        return write

    def test_read_on_from_where_one_stopped(self, world, log):
        text = "one\ntwo\nthr\u00e9\u00e9\n".encode()
        log(text[:-3])  # in the middle of a character
        first = world.owner.get(self.path, stream="stdout").json()
        assert (first["text"], first["offset"], first["complete"]) == ("one\ntwo\nthr\u00e9", 0, False)
        log(text[-3:])
        rest = world.owner.get(self.path, stream="stdout", offset=first["next_offset"]).json()
        assert rest == world.owner.get(self.path, stream="stdout", cursor=first["next"]).json()
        assert rest["text"] == "\u00e9\n"
        assert rest["next_offset"] == len(text)
        assert rest["available"] == [{"attempt": 1, "rank": 0, "stream": "stdout", "bytes": len(text)}]
        refusal(world.outsider.get(self.path), 404, "not_found")

    @pytest.mark.parametrize("which", [{}, {"stream": "stdout"}])
    def test_tail_and_since(self, world, log, which):
        log(b"one\ntwo\n")
        log(b"three\n", minutes=5)
        assert world.owner.get(self.path, tail=2, **which).json()["text"] == "two\nthree\n"
        assert world.owner.get(self.path, tail=99, **which).json()["text"] == "one\ntwo\nthree\n"
        since = (self.at + timedelta(minutes=1)).isoformat()
        assert world.owner.get(self.path, since=since, **which).json()["text"] == "three\n"

    def test_both_streams_come_without_a_word(self, world, log):
        """The error of a job that only wrote to stderr was not to be seen: the answer was empty."""
        log(b"Traceback: no such file\n", stream="stderr")
        told = world.owner.get(self.path).json()
        assert (told["text"], told["stream"]) == ("Traceback: no such file\n", "both")
        assert (told["offset"], told["next_offset"], told["complete"]) == (None, None, False)
        log(b"epoch 1\nepo")
        log(b"warning\n", stream="stderr")
        log(b"ch 2\n")
        rest = world.owner.get(self.path, cursor=told["next"]).json()
        assert rest["text"] == "epoch 1\nwarning\nepoch 2\n"
        assert world.owner.get(self.path, cursor=rest["next"]).json()["text"] == ""
        assert world.owner.get(self.path, stream="stderr").json()["text"] == "Traceback: no such file\nwarning\n"
        assert world.owner.get(self.path, tail=2).json()["text"] == "warning\nepoch 2\n"

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ({"offset": 3}, "offset"),
            ({"cursor": "3"}, "cursor"),
            ({"cursor": "1.x"}, "cursor"),
            ({"cursor": "1.2", "stream": "stdout"}, "cursor"),
            ({"cursor": "1", "offset": 1, "stream": "stdout"}, "cursor"),
            ({"stream": "both"}, "stream"),
        ],
    )
    def test_where_to_go_on_must_fit_what_is_read(self, world, log, query, field):
        error = refusal(world.owner.get(self.path, **query), 400)
        assert error["field"] == field

    def test_follow_ends_by_itself_and_sees_what_comes(self, world, log, monkeypatch):
        from portal.work.jobs.api import logs as api_logs

        naps = []
        monkeypatch.setattr(api_logs.time, "sleep", lambda _: (naps.append(1), log(b"late\n")))
        assert world.owner.get(self.path, follow="1", wait=5).json()["text"] == "late\n"
        assert naps == [1]

    def test_a_large_log_comes_in_pieces(self, world, log):
        for _ in range(3):
            log(b"x" * 200_000)
        sizes, offset = [], 0
        while len(piece := world.owner.get(self.path, stream="stdout", offset=offset).json()["text"]):
            sizes.append(len(piece))
            offset += len(piece)
        assert sizes == [262_144, 262_144, 75_712]

    def test_bytes_that_are_no_text(self, world, log):
        log(b"\xff\xfe\x00\n\xe2")
        assert world.owner.get(self.path).json()["text"] == "\ufffd\ufffd\n"
        assert world.owner.get(self.path, stream="stdout").json()["text"] == "\ufffd\ufffd\x00\n"
        self.attempt.ended_at, self.attempt.state = timezone.now(), "FAILED"
        self.attempt.save()
        answer = world.owner.get(self.path).json()
        assert answer["text"].endswith("\ufffd")
        assert answer["complete"]

    def test_wrong_parts(self, world, log):
        refusal(world.owner.get(self.path, attempt=2), 404)
        refusal(world.owner.get(self.path, rank=1), 404)
        refusal(world.owner.get(self.path, stream="stdin"), 400, "invalid_choice", "stream")
        assert world.owner.get(f"/jobs/{world.owner.submit()['id']}/logs").json()["attempt"] is None
