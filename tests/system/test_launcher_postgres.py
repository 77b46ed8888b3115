"""`up` with DATABASE_URL: the same Berth on Postgres, its jobs included."""

import pytest

pytestmark = [pytest.mark.system, pytest.mark.postgres]


@pytest.fixture(scope="module")
def berth(berth_up, postgres_url):
    return berth_up(demo=True, environment={"DATABASE_URL": postgres_url})


def test_a_job_runs_and_ends(berth):
    token = berth.tokens["speech-co"]
    body = {"command": "echo done", "gpus": 1}
    status, job = berth.request("/api/v1/jobs", method="POST", body=body, token=token)
    assert status == 201, job
    berth.wait(
        lambda: berth.request(f"/api/v1/jobs/{job['id']}", token=token)[1]["state"] == "COMPLETED", what="its end"
    )
    assert not berth.layout.database.exists(), "nothing went to SQLite"


def test_up_again_keeps_everything(berth):
    before = berth.request("/api/v1/jobs", token=berth.tokens["speech-co"])[1]
    berth.down()
    berth.up()
    assert berth.request("/api/v1/jobs", token=berth.tokens["speech-co"])[1] == before
