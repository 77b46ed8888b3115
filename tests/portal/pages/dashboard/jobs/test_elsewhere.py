"""Links to a job's run in a tracker: only to addresses of the web, and only where the variables name it whole."""

import pytest

from portal.pages.dashboard.jobs.ran.elsewhere import runs_named

WANDB = {"WANDB_ENTITY": "lab", "WANDB_PROJECT": "a b", "WANDB_RUN_ID": "x/1"}
MLFLOW = {"MLFLOW_TRACKING_URI": "http://mlflow:5000/", "MLFLOW_EXPERIMENT_ID": "3", "MLFLOW_RUN_ID": "7f"}


def urls(environment):
    return [each["url"] for each in runs_named(environment)]


def test_a_run_that_is_named_whole_has_a_link():
    assert urls(WANDB) == ["https://wandb.ai/lab/a%20b/runs/x%2F1"]
    assert urls(WANDB | {"WANDB_BASE_URL": "https://wandb.lab.org/"}) == ["https://wandb.lab.org/lab/a%20b/runs/x%2F1"]
    assert urls(MLFLOW) == ["http://mlflow:5000/#/experiments/3/runs/7f"]
    assert urls({**WANDB, "WANDB_RUN_ID": ""}) == urls({}) == []


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)//x",
        "file:///etc/passwd",
        "//host",
        "databricks",
        "http://",
        "http://a@b",
        "http://[",
        "http://h/?q",
    ],
)
def test_what_is_no_address_of_the_web_has_none(address):
    assert urls(MLFLOW | {"MLFLOW_TRACKING_URI": address}) == []
