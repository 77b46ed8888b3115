"""Re-plans of every policy when something is unsound, or no answer comes in time: nothing is stopped.

Snapshots as the service's are, on which simulations do not come: a job whose speed on one of the types is not known.
"""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.model import Piece
from scheduler.model.speeds import Cell, CellKey, Knowledge, Loading, Part, Profile
from scheduler.policies.registry import POLICIES
from scheduler.policies.rivals.typelevel.program import Bucket, Kind, Row, solve
from scheduler.simulator.rivals import RIVALS
from tests.scheduler.builders import job, make_plan, node, ticking, where, why
from tests.scheduler.replan.test_replans import beside, elastic

EVERY = POLICIES | RIVALS
ALL_ANEW = [name for name, policy in RIVALS.items() if policy.replans]
LOADING = Loading(1, (Part(1.0, 0.1, 0.02, 0.0, 0.0, 0.0),))


def unknown_on_b(*labels):
    """Each model's speed is measured on type a; on b there is a profile of batches of none: its speed there is 0."""
    cells = {CellKey(f"tenant:1:{each}", "a", gpus=1): Cell(3, 5.0, 0.1) for each in labels}
    profiles = {(f"tenant:1:{each}", "b"): Profile(0.1, 0.1, 0.1, 0, 1e6, loading=LOADING) for each in labels}
    return Knowledge(cells, profiles, {})


def replanned(policy, nodes, jobs, live, *, step_s=0.0, knowledge=None):
    more = {"clock": ticking(step_s), "knowledge": knowledge or Knowledge()}
    return make_plan(nodes, jobs, running=live, replan=True, policy=policy, **more)


def described(live, **changes):
    return replace(live, description=replace(live.description, **changes))


@pytest.mark.parametrize("policy", EVERY)
class TestAJobThatRuns:
    def test_is_left_alone_where_its_speed_is_not_to_be_told(self, policy):
        """Others are given the rest."""
        live = [described(elastic(9, 1, gpus=1), model_label="m")]
        nodes = [beside(1, live, gpus=2, gpu_type="a"), node(2, 1, gpu_type="b")]
        made = replanned(policy, nodes, [job(1, 1), job(2, 1)], live, knowledge=unknown_on_b("m"))
        assert made.stops == ()
        assert set(where(made)) == {1, 2}

    def test_is_left_alone_when_it_holds_no_core(self, policy):
        """It has no speed."""
        live = [replace(elastic(9, 1, gpus=1), pieces=(Piece(1, (0,), (), 0),))]
        made = replanned(policy, [beside(1, live, gpus=2)], [job(1, 1)], live)
        assert made.stops == ()
        assert set(where(made)) == {1}

    @pytest.mark.parametrize("changes", [{"requirement": (0, 1)}, {"cores": 0}, {"requirement": (1.5,)}])
    def test_is_left_alone_when_its_description_is_unsound(self, policy, changes):
        live = [described(elastic(9, 1, gpus=1), **changes)]
        made = replanned(policy, [beside(1, live, gpus=2)], [job(1, 1)], live)
        assert made.stops == ()
        assert set(where(made)) == {1}


@pytest.mark.parametrize("policy", ALL_ANEW)
def test_a_job_that_runs_is_left_alone_on_nodes_of_several_types(policy):
    """Neither Sia nor Gavel knows such a configuration: it began under another policy. Ours may move it."""
    ids = (0,)
    live = [replace(elastic(9, 2, gpus=1), pieces=(Piece(1, ids, ids, 0), Piece(2, ids, ids, 0)))]
    nodes = [beside(1, live, gpus=2, gpu_type="a"), beside(2, live, gpus=4, gpu_type="b")]
    made = replanned(policy, nodes, [job(1, 1)], live)
    assert made.stops == ()
    assert set(where(made)) == {1}


def test_who_waits_and_has_no_sound_speed_is_named_and_the_others_are_placed(subtests):
    for policy in EVERY:
        with subtests.test(policy=policy):
            nodes = [node(1, 2, gpu_type="a"), node(2, 2, gpu_type="b")]
            made = replanned(policy, nodes, [job(1, 1, model_label="m"), job(2, 1)], [], knowledge=unknown_on_b("m"))
            assert why(made) == {1: "invalid"} or where(made)[1] == {1: 1}, "it may start where its speed is known"
            assert 2 in where(made)


@pytest.mark.parametrize("policy", ["sia", "sia-hops"])
def test_jobs_of_a_model_that_ask_for_other_types_are_not_taken_for_each_other(policy):
    """The first job's configurations were the second's, which can use none of them."""
    jobs = [job(1, 1, model_label="m", gpu_types=frozenset("a")), job(2, 1, model_label="m", gpu_types=frozenset("b"))]
    made = replanned(policy, [node(1, 1, gpu_type="a"), node(2, 1, gpu_type="b")], jobs, [])
    assert where(made) == {1: {1: 1}, 2: {2: 1}}


class TestNoAnswerInTime:
    """Sia: a round whose program is not solved keeps the present allocation."""

    @pytest.mark.parametrize("policy", ["sia", "sia-hops"])
    def test_everybody_keeps_what_it_has(self, policy, monkeypatch):
        """Though GPUs are idle, and though what is known of one running job is unsound."""
        monkeypatch.setattr("scheduler.policies.rivals.typelevel.program.solve", lambda *_, **__: None)
        live = [described(elastic(9, 1, gpus=1), model_label="m"), elastic(8, 1, 2, gpus=1, first=1)]
        nodes = [beside(1, live, gpus=4, gpu_type="a"), node(2, 1, gpu_type="b")]
        made = replanned(policy, nodes, [job(1, 1, 2), job(2, 1)], live, knowledge=unknown_on_b("m"))
        assert (made.stops, made.promises, made.placements) == ((), (), ())
        assert made.solver.status == "time-limit"
        assert why(made) == {1: "solver-limit", 2: "solver-limit"}

    def test_the_program_says_so(self):
        rng = np.random.default_rng(3)
        kinds = [Kind(Bucket(name, 8), gpus) for name in "abcd" for gpus in (1, 2, 4, 8)]
        rows = [Row(n, 1, {kind: float(rng.uniform(1, 9)) for kind in kinds}) for n in range(1500)]
        assert solve(rows, {Bucket(name, 8): 400 for name in "abcd"}, time_limit_s=0.0, seed=1) is None
