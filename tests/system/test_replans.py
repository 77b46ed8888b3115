"""Sections 4, 6 and 7 on a whole Berth: a training grows when others end, and a borrower gives back what its owner needs."""

import re

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.client import Tenant, leaks, operator_settings, signed_in
from tests.unbroken import unbroken

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("pages")]

RTX = {"gpu_types": ["RTX 3090"], "cores_per_gpu": 1}
"""Two nodes of four: with half of the large nodes in gpu-large, one is its and one is gpu-small's."""

WAITING = "trap 'exit 143' TERM; while :; do sleep 0.2; done"


@pytest.fixture(scope="module")
def berth(berth_shared):
    before = operator_settings(berth_shared, tick_s=1, replan_s=6, restart_cost_s=1, large_array_share=0.5)
    yield berth_shared
    operator_settings(berth_shared, **before)


@pytest.fixture
def tenant(berth):
    made = Tenant(berth)
    yield made
    for job in open_jobs(made):
        made.act(job["number"], "cancel")
    berth.wait(lambda: not open_jobs(made), what="all jobs to end")


def open_jobs(tenant):
    page = tenant.berth.request("/api/v1/jobs?page_size=100", token=tenant.token)[1]["results"]
    return [job for job in page if job["ended_at"] is None]


def attempts(tenant, number):
    """A job's attempts, the first one first."""
    return tenant.job(number)["attempts"][::-1]


def submit_training(tenant):
    """An example that waits longer in each step the more GPUs it has: four are less than twice as fast as one on any machine."""
    text, rest = (SOURCE / "examples/charlm/train.py").read_text(), "            pace.rest()\n"
    assert text.count(rest) == 1
    return tenant.submit(
        '"$BERTH_PYTHON" train.py --steps 1000000 --batch 8',
        gpus=[1, 2, 4],
        files={"train.py": text.replace(rest, f"{rest}            time.sleep(0.03 * (gpus - 1))\n")},
        checkpointable=True,
        retries=0,
        max_requeues=0,
        **RTX,
    )


def resized(berth, tenant, training, *, attempt):
    """Wait until a re-plan has given the training its next attempt; return of how many GPUs, and the step that the last one saved.

    Mostly that is what the attempt before was stopped for; a planning between the two may have changed its mind.
    """
    berth.wait(lambda: len(attempts(tenant, training)) > attempt, limit_s=240, what="the re-plan that resizes it")
    saved = re.search(
        r"saved at step (\d+)", tenant.wait_log(training, "asked to stop: saved at step ", attempt=attempt)
    )
    resumed = tenant.wait_log(training, "chars/s", limit_s=40, attempt=attempt + 1)
    before, now = attempts(tenant, training)[attempt - 1 : attempt + 1]
    assert resumed.startswith(f"{now['gpus']} processes, from step {saved[1]}\n"), "no step is lost or made twice"
    assert (before["state"], before["stop_reason"], before["stop_cause"]) == ("PREEMPTED", "preempt", "resize")
    assert before["stop_to_gpus"] != before["gpus"]
    return now["gpus"], int(saved[1])


def test_an_elastic_training_grows_and_shrinks_with_the_losses_of_an_unbroken_run(berth, tenant):
    """From 1 GPU to 4 to 2, through portal, agent, shim and the example's own checkpoints.

    On a machine that others keep busy four may be no faster than two: then it is from 1 to 2 to 1.
    """
    others = [tenant.submit(WAITING, gpus=gpus, **RTX) for gpus in (4, 3)]
    for number in others:
        tenant.wait_state(number, "RUNNING")
    training = submit_training(tenant)
    tenant.wait_log(training, "chars/s", limit_s=40)
    assert attempts(tenant, training)[0]["gpus"] == 1, "no more was idle"
    tenant.act(others[1], "cancel")  # the other node stays full, so that it can grow where it is alone
    segments, sizes = [], [1]

    def until(changed):
        while not changed(sizes[-1]):
            size, step = resized(berth, tenant, training, attempt=len(sizes))
            segments.append((sizes[-1], 0.5, step))
            sizes.append(size)

    until(lambda size: size > 1)
    grown = sizes[-1]
    berth.wait(lambda: attempts(tenant, training)[1]["restart_s"], what="the restart's cost")
    # Said to be short, it soon weighs more, however fast the larger size seemed.
    late = tenant.submit(WAITING, gpus=4 - grown // 2, expected_duration_s=20, **RTX)
    until(lambda size: size < grown)
    tenant.wait_state(late, "RUNNING")
    job = tenant.job(training)
    assert (job["preemptions"], job["failures"], job["requeues"]) == (len(segments), 0, 0)
    log = "".join(tenant.log(training, attempt=attempt + 1) for attempt in range(len(sizes)))
    told = [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+) loss ([\d.]+)", log)]
    losses, _ = unbroken([*segments, (sizes[-1], 0.5, told[-1][0])], batch=8)
    assert told == [(step, pytest.approx(losses[step], abs=0.002)) for step, _ in told]
    assert told[-1][0] > segments[-1][2] > segments[0][2] > 0
    the_pages_curve_has_no_break(berth, training, told)


def the_pages_curve_has_no_break(berth, training, told):
    """The job's page draws one curve of all attempts: each step that the log tells stands there once, in its order."""
    with signed_in(berth, "viktor") as browser:
        path = f"/jobs/{training}/artefacts/figure?name=loss"
        assert path in browser.get(f"/jobs/{training}/").text

        def drawn():
            (line,) = browser.get(path).json()["lines"]
            return line if {step for step, _ in told} <= set(line["x"]) else None

        line = berth.wait(drawn, limit_s=60, what="all that the log tells on the curve")
    assert line["x"] == sorted(set(line["x"]))
    assert None not in line["y"]
    points = dict(zip(line["x"], line["y"], strict=True))
    assert [(step, points[step]) for step, _ in told] == [(step, pytest.approx(loss, abs=0.001)) for step, loss in told]


def test_a_borrower_is_called_back_for_an_owners_job(berth, tenant):
    """Section 4: small movable jobs may borrow the large array's node until a large job needs it."""
    told = {"expected_duration_s": 600, **RTX}  # the border between small and large jobs stands where lengths are known
    small = [tenant.submit(WAITING, gpus=2, restartable=True, **told) for _ in range(4)]
    for number in small:
        tenant.wait_state(number, "RUNNING")
    owner = tenant.submit("sleep 600", gpus=4, **told)
    tenant.wait_state(owner, "RUNNING", limit_s=40)
    (placed,) = attempts(tenant, owner)
    (node,) = {part["node"] for part in placed["parts"]}
    given_back = [number for number in small if attempts(tenant, number)[0]["stop_cause"]]
    assert len(given_back) == 2
    for number in given_back:
        first = attempts(tenant, number)[0]
        assert (first["stop_cause"], first["stop_for"], first["state"]) == ("call-back", owner, "PREEMPTED")
        assert [part["node"] for part in first["parts"]] == [node]
        assert tenant.state(number) == "PENDING", "it waits at the head of its array"
    others = set(small) - set(given_back)
    assert {tenant.job(number)["epoch"] for number in others} == {1}
    tenant.act(owner, "cancel")
    for number in given_back:
        berth.wait(lambda number=number: tenant.job(number)["epoch"] == 2, what="the borrowers' turn again")
    assert [tenant.job(number)["requeues"] for number in small] == [0] * 4


def test_nothing_is_left_held(berth):
    assert leaks(berth) == []
