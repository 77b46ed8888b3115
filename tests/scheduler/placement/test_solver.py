"""The two hand-overs to the solver, against each other and against trying every choice (algorithms.md section 6)."""

import itertools
import sys
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.located import Program
from scheduler.placement.solver import best_of_each, relative_gap, solve_arrays, solve_pulp

SETTINGS = {"gap": 0.0, "time_limit_s": 5.0, "seed": 1}


@st.composite
def programs(draw):
    """Up to seven binaries under one-of rows and capacities."""
    columns = draw(st.integers(1, 7))
    program = Program()
    for _ in range(columns):
        program.column(draw(st.integers(1, 20)) / 4)
    for _ in range(draw(st.integers(1, 4))):
        used = draw(st.lists(st.integers(0, columns - 1), min_size=1, unique=True))
        program.row([(column, draw(st.integers(1, 5))) for column in used], draw(st.integers(1, 9)))
    return program


def best_by_trying(program):
    def feasible(x):
        return all(sum(v * x[c] for c, v in zip(cs, vs, strict=True)) <= upper for cs, vs, upper in program.rows)

    choices = itertools.product((0, 1), repeat=len(program.objective))
    return max(sum(v * x for v, x in zip(program.objective, xs, strict=True)) for xs in choices if feasible(xs))


@settings(max_examples=10, deadline=None)
@given(programs())
def test_both_paths_find_the_optimum(program):
    best = best_by_trying(program)
    for path in (solve_pulp, solve_arrays):
        answer = path(program, **SETTINGS)
        assert answer.status == "optimal"
        assert answer.objective == pytest.approx(best)
        assert answer.bound == pytest.approx(best)
        assert answer.gap == 0.0


@st.composite
def owned_programs(draw):
    """Up to four owners with up to three columns each, on two nodes; whose each column is."""
    program, owners = Program(), []
    for owner in range(draw(st.integers(1, 4))):
        own = [program.column(draw(st.integers(0, 6)) / 4) for _ in range(draw(st.integers(1, 3)))]
        program.row([(column, 1.0) for column in own], 1.0)
        owners += [owner] * len(own)
    for upper in draw(st.tuples(st.integers(1, 9), st.integers(1, 9))):
        program.row([(column, draw(st.integers(0, 4))) for column in range(len(owners))], upper)
    return program, owners


@settings(max_examples=100, deadline=None)
@given(owned_programs())
def test_where_each_may_have_its_best_the_solver_says_the_same(drawn):
    program, owners = drawn
    answer = best_of_each(program, owners)
    if answer is not None:
        assert answer == solve_pulp(program, **SETTINGS)


@pytest.mark.parametrize(
    ("values", "upper", "chosen"),
    [((1.0, 2.0, 3.0), 5.0, (1, 2)), ((1.0, 2.0, 3.0), 4.0, None), ((2.0, 2.0, 3.0), 5.0, None), ((1, 2, 0), 5, None)],
)
def test_the_solver_is_asked_where_they_do_not_fit_or_are_equal(values, upper, chosen):
    """Owner 0 has columns of 1 and 2 GPUs, owner 1 one of 3."""
    program = Program()
    for value in values:
        program.column(value)
    program.row([(0, 1.0), (1, 1.0)], 1.0)
    program.row([(0, 1.0), (1, 2.0), (2, 3.0)], upper)
    answer = best_of_each(program, [0, 0, 1])
    assert (answer and answer.chosen) == chosen


def hard(jobs=60, nodes=6):
    """Many near-equal jobs on few nodes: nothing a millisecond could settle."""
    program = Program()
    columns = {(i, t): program.column(1 + (i * 7 + t * 3) % 11 / 1000) for i in range(jobs) for t in range(nodes)}
    for i in range(jobs):
        program.row([(columns[i, t], 1.0) for t in range(nodes)], 1.0)
    for t in range(nodes):
        program.row([(columns[i, t], 2.0 + (i * 5 + t) % 7) for i in range(jobs)], 31.0)
    return program


@pytest.mark.parametrize("path", [solve_pulp, solve_arrays])
def test_a_limit_before_anything_is_found_gives_no_plan_and_no_error(path):
    answer = path(hard(), gap=0.0, time_limit_s=1e-9, seed=1)
    assert answer.status in {"time-limit", "optimal"}
    assert answer.status == "optimal" or answer.gap is None or answer.gap > 0


def test_a_start_is_never_lost():
    program = hard()
    start = [0, 7, 14]
    answer = solve_arrays(program, gap=0.0, time_limit_s=1e-6, seed=1, start=start)
    assert answer.objective >= sum(program.objective[column] for column in start) - 1e-9


def test_stopping_at_the_allowed_gap_is_said():
    answer = solve_arrays(hard(), gap=0.2, time_limit_s=5.0, seed=1)
    assert answer.status in {"gap", "optimal"}
    assert answer.gap <= 0.2
    assert answer.bound >= answer.objective


def test_relative_gap():
    assert relative_gap(4.0, 5.0) == 0.25
    assert relative_gap(4.0, 4.0 + 1e-9) == 0.0
    assert relative_gap(4.0, None) is None


def test_the_solver_is_imported_on_the_first_solve_only():
    code = "import sys, scheduler.planning.plan; sys.exit('pulp' in sys.modules or 'highspy' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
