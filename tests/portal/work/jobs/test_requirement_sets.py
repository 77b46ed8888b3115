"""Section 1: both forms of a requirement set, the operator's R_num, learning-rate rules, and what the job is given."""

import math

import pytest

from portal.foundation.errors import BerthError
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.declaration.openapi import EXAMPLES
from portal.work.jobs.description import description_parse
from portal.work.jobs.selectors import part_spec
from portal.work.jobs.services.submission import job_submit
from tests.portal import given


def environment(cluster, gpus, **fields):
    """What a job of the set {1, 2, 4} (or `sizes`) finds in its environment when `gpus` were chosen."""
    job = cluster.submit(gpus=fields.pop("sizes", [1, 2, 4]), **fields)
    attempt = cluster.start(job, gpus=gpus)
    found = part_spec(node=cluster.node, key=attempt.key)["environment"]
    cluster.report(attempt, "running", pid=1)
    cluster.end(attempt)
    return found


@pytest.mark.parametrize(
    ("rule", "rates"),
    [("linear", (0.1, 0.2, 0.4)), ("sqrt", (0.2, 0.4 / math.sqrt(2), 0.4)), ("none", (0.4, 0.4, 0.4))],
)
def test_the_rate_at_a_reference_follows_the_size_by_its_rule(cluster, rule, rates):
    """By lr * r/r_ref, lr * sqrt(r/r_ref), lr; the chosen values reach the job as environment variables."""
    rate = {"at": 4, "value": 0.4, "rule": rule}
    found = [float(environment(cluster, gpus, learning_rate=rate)["BERTH_LEARNING_RATE"]) for gpus in (1, 2, 4)]
    assert found == pytest.approx(rates)


def test_the_reference_need_not_be_one_of_the_set(cluster):
    rate = {"at": 8, "value": 0.8, "rule": "linear"}
    assert float(environment(cluster, 2, learning_rate=rate)["BERTH_LEARNING_RATE"]) == pytest.approx(0.2)


def test_one_rate_for_each_requirement(cluster):
    rates = {"1": 0.1, "2": 0.15, "4": 0.3}
    found = [float(environment(cluster, gpus, learning_rate=rates)["BERTH_LEARNING_RATE"]) for gpus in (1, 2, 4)]
    assert found == [0.1, 0.15, 0.3]


def test_the_batch_of_a_gpu_stays_and_the_whole_batch_grows(cluster):
    found = [environment(cluster, gpus, batch_per_gpu=32) for gpus in (1, 2, 4)]
    assert [each["BERTH_BATCH_PER_GPU"] for each in found] == ["32"] * 3
    assert [each["BERTH_BATCH"] for each in found] == ["32", "64", "128"]


def test_a_cpu_jobs_one_rate_reaches_it_too(cluster):
    assert environment(cluster, 0, sizes=0, learning_rate=0.5)["BERTH_LEARNING_RATE"] == "0.5"


def test_the_operators_r_num_cuts_the_ranges_of_later_jobs(cluster):
    """Both ends kept, equally spaced; what was submitted before keeps its set."""

    def submit():
        description = {"command": "true", "gpus": {"min": 1, "max": 4}}
        return job_submit(user=cluster.owner, description=description, r_num=knobs_current()["r_num"])

    first = submit()
    settings_update(actor=given.operator(), r_num=3)
    second = submit()
    first.refresh_from_db()
    assert (first.gpus, second.gpus) == ([1, 2, 3, 4], [1, 3, 4])  # 2.5 is rounded up


def test_the_planning_chooses_one_of_the_set(cluster):
    job = cluster.submit(gpus={"min": 3, "max": 9}, cores_per_gpu=1, cores_exactly=True)
    assert job.gpus == [3, 4, 5, 6, 7, 8, 9]
    planning_run()
    assert job.attempts.get().gpus == 4, "the node has four"


def test_a_bad_rate_names_its_part(subtests):
    for rate, gpus, code, field in [
        ({"1": 0.1}, [1, 2], "conflict", "learning_rate"),
        ({"1": 0.1, "2": 0.2, "3": 0.3}, [1, 2], "conflict", "learning_rate"),
        ({"at": 4, "value": 0.4}, [1, 2], "required", "learning_rate.rule"),
        ({"at": 0, "value": 0.4, "rule": "linear"}, [1, 2], "out_of_range", "learning_rate.at"),
        ({"at": 4, "value": -0.4, "rule": "linear"}, [1, 2], "out_of_range", "learning_rate.value"),
        ({"at": 4, "value": 0.4, "rule": "cube"}, [1, 2], "invalid_choice", "learning_rate.rule"),
        ({"1": math.nan, "2": 0.1}, [1, 2], "out_of_range", "learning_rate.1"),
        ({"at": 4, "value": 0.4, "rule": "linear"}, 0, "not_for_cpu_jobs", "learning_rate"),
    ]:
        with subtests.test(rate=rate, gpus=gpus):
            with pytest.raises(BerthError) as error:
                description_parse({"command": "true", "gpus": gpus, "learning_rate": rate})
            assert (error.value.code, error.value.field) == (code, field)


def test_the_schemas_examples_are_accepted():
    for example in EXAMPLES:
        description_parse(example.value)
