"""A Berth on Postgres: its first start, the road of jobs, the next start, and the story of a backup. One Berth for all."""

import psycopg
import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.story import ENVIRONMENT, Story, backup, killed, restore

pytestmark = [pytest.mark.system, pytest.mark.postgres]


@pytest.fixture(scope="module")
def berth(berth_up, postgres_url):
    return berth_up(demo=True, workload=False, environment=ENVIRONMENT | {"DATABASE_URL": postgres_url})


def test_a_job_runs_and_ends(berth):
    token = berth.tokens["speech-co"]
    body = {"command": "echo done", "gpus": 1}
    status, job = berth.request("/api/v1/jobs", method="POST", body=body, token=token)
    assert status == 201, job
    berth.wait(
        lambda: berth.request(f"/api/v1/jobs/{job['id']}", token=token)[1]["state"] == "COMPLETED", what="its end"
    )
    assert not berth.layout.database.exists(), "nothing went to SQLite"


def test_the_road_on_postgres(berth, postgres_url):
    assert berth.request("/healthz")[1]["database"] == "ok"
    tenant = Tenant(berth)
    number = tenant.submit("echo on Postgres; sleep 1", key="once")
    assert tenant.submit("echo on Postgres; sleep 1", key="once") == number
    wide = tenant.submit("echo rank $NODE_RANK; sleep 1", gpus=12, gpu_types=["A100 80 GB"])
    array = tenant.submit("echo $BERTH_ARRAY_INDEX", gpus=0, cores=1, array={"size": 3, "concurrency": 2})
    after = tenant.submit("echo after", depends_on=[int(number)])
    endless = tenant.submit("sleep 600", restartable=True)
    for each in (number, wide, after):
        tenant.wait_state(each, "COMPLETED", limit_s=40)
    assert tenant.wait_log(number, "on Postgres") == "on Postgres\n"
    assert {tenant.log(wide, rank=rank) for rank in (0, 1)} == {"rank 0\n", "rank 1\n"}
    tenant.wait_state(endless, "RUNNING")
    victims = berth.kill("portal")
    berth.wait(lambda: set(berth.pids("portal").values()) - set(victims), what="a new portal")
    berth.wait_healthy()
    assert tenant.job(endless)["epoch"] == 1
    tenant.act(endless, "cancel")
    tenant.wait_state(endless, "CANCELLED")
    berth.wait(lambda: tenant.state(array) == "COMPLETED", limit_s=90, what="the array")
    with psycopg.connect(postgres_url) as connection:
        live = "select count(*) from jobs_attempt where ended_at is null"
        berth.wait(lambda: connection.execute(live).fetchone() == (0,), what="the end of the links' probe, if one runs")
        held = (
            "select count(*) from jobs_allocation a join jobs_attempt t on t.id = a.attempt_id "
            "where a.released_at is null and t.ended_at is not null"
        )
        assert connection.execute(held).fetchone() == (0,)
    assert not berth.layout.database.exists()


@pytest.mark.slow
def test_up_again_keeps_everything(berth):
    before = berth.request("/api/v1/jobs", token=berth.tokens["speech-co"])[1]
    berth.down()
    berth.up()
    assert berth.request("/api/v1/jobs", token=berth.tokens["speech-co"])[1] == before


@pytest.mark.slow
def test_the_story_of_a_backup(berth, tmp_path):
    story, file = Story(berth, tmp_path), tmp_path / "all.berth-backup"
    story.until_backup()
    backup(story, file)
    story.after_backup()
    killed(berth)
    restore(story, file)
    story.goes_on("after", story.told, story.ends)
    story.some_end()
    story.all_end()
