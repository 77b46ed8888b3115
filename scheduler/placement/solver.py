"""The one file that knows a solver: PuLP states the model, HiGHS solves it, in this process and on one thread.

PuLP makes objects of variables and rows, and takes no start solution. Above `PULP_VARIABLES` the same program goes to HiGHS only
as arrays; a test checks that both give the same. The libraries are imported at the first solve, not at start-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.placement.located import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

PULP_VARIABLES = 400
"""Up to this number of variables PuLP takes a few milliseconds to state the program."""

PRESOLVE_VARIABLES = 5_000
"""Above this HiGHS' presolve is left out: at 20 000 it took 1.6 s without looking at the limit, and removed nothing."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The incumbent (None = none found), its objective, the proven bound and relative gap (None = nothing proven)."""

    status: str  # optimal | gap | time-limit | failed
    chosen: tuple[int, ...] | None  # binary columns that are 1
    objective: float | None
    bound: float | None
    gap: float | None


NOTHING = Solution("time-limit", None, None, None, None)
"""The solution when no time is left to ask."""

CLEARLY = 1e-6
"""By this part of its value a column must be above its owner's others to be the best for a solver with tolerances too."""


def best_of_each(program: Program, owners: Sequence[int]) -> Solution | None:
    """The optimum where each owner may have its best column: the same that `solve` finds, at a hundredth of its time.

    `owners`: whose each column is; an owner has at most one. None = ask the solver: they do not fit together, or an owner has
    two columns that are equally good, of which the solver takes one by rules of its own.
    """
    best: dict[int, tuple[float, int]] = {}
    others: dict[int, float] = {}
    for column, (owner, value) in enumerate(zip(owners, program.objective, strict=False)):
        most, _ = best.get(owner, (0.0, -1))
        others[owner] = max(others.get(owner, 0.0), min(value, most))
        if value > most:
            best[owner] = (value, column)
    if not all(program.binary) or any(others[owner] > (1 - CLEARLY) * value for owner, (value, _) in best.items()):
        return None
    chosen = tuple(sorted(column for _, column in best.values()))
    if len(best) < len(others) or not _feasible(program, chosen):
        return None
    objective = math.fsum(program.objective[column] for column in chosen)
    return Solution("optimal", chosen, objective, objective, 0.0)


def solve(
    program: Program, *, gap: float, time_limit_s: float, seed: int, start: Sequence[int] | None = None
) -> Solution:
    """Solve within the limit and the relative gap. `start`: columns of a feasible plan to begin from (arrays only)."""
    path = solve_pulp if len(program.objective) <= PULP_VARIABLES else solve_arrays
    return path(program, gap=gap, time_limit_s=time_limit_s, seed=seed, start=start)


def solve_pulp(
    program: Program,
    *,
    gap: float,
    time_limit_s: float,
    seed: int,
    start: Sequence[int] | None = None,
) -> Solution:
    """The program through PuLP's model and its HiGHS interface."""
    import highspy
    import pulp

    problem = pulp.LpProblem("located", pulp.LpMaximize)
    columns = [
        problem.add_variable(f"x{k:07d}", 0, 1, pulp.LpInteger if binary else pulp.LpContinuous)
        for k, binary in enumerate(program.binary)
    ]
    problem += pulp.LpAffineExpression(zip(columns, program.objective, strict=True))
    for k, (indices, coefficients, upper) in enumerate(program.rows):
        access_rules = zip((columns[index] for index in indices), coefficients, strict=True)
        problem += pulp.LpConstraint(pulp.LpAffineExpression(access_rules), pulp.LpConstraintLE, f"r{k:07d}", upper)
    limits = {"gapRel": gap, "threads": 1, "timeLimit": max(0.001, time_limit_s)}
    # In so small a program the feasibility jump takes longer than all the rest, and the optimum is the same.
    solver = pulp.HiGHS(msg=False, **limits, **highs_options(seed), mip_heuristic_run_feasibility_jump=False)
    solver.buildSolverModel = lambda stated: stated.solverModel.passModel(_as_lp(highspy, _as_stated(stated)))
    problem.solve(solver)
    values = np.array([column.varValue or 0.0 for column in columns])
    return _solution(problem.solverModel, values, program)


def _as_stated(problem: Any) -> Program:
    """Read PuLP's model back as one program, to pass it at once: PuLP's own interface calls HiGHS for each column and row."""
    columns, rows = problem.variables(), problem.constraints()
    for numbered in (columns, rows):
        for number, each in enumerate(numbered):
            each.index = number  # by which PuLP finds what HiGHS says of it
    program = Program(
        [problem.objective.get(column, 0.0) for column in columns], [column.isInteger() for column in columns]
    )
    for row in rows:
        program.row(((column.index, value) for column, value in row.items()), row.getUb())
    return program


def solve_arrays(
    program: Program, *, gap: float, time_limit_s: float, seed: int, start: Sequence[int] | None = None
) -> Solution:
    """The program handed to HiGHS as arrays, in one call."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for name, value in {
        "threads": 1,
        "mip_rel_gap": gap,
        "time_limit": max(0.001, time_limit_s),
        **highs_options(seed),
    }.items():
        highs.setOptionValue(name, value)
    if len(program.objective) > PRESOLVE_VARIABLES:
        highs.setOptionValue("presolve", "off")
    highs.passModel(_as_lp(highspy, program))
    if start is not None:
        _start_from(highspy, highs, program, start)
    highs.run()
    return _solution(highs, np.array(highs.getSolution().col_value), program)


def highs_options(seed: int) -> dict[str, int | float]:
    # The relative gap decides: with small weights the absolute one would end a search too early. Restarts cost more
    # than they gain on programs of a few hundred columns, the common case.
    return {"random_seed": seed, "mip_abs_gap": 1e-9, "mip_allow_restart": False}


def _as_lp(highspy: Any, program: Program) -> Any:
    columns, rows = len(program.objective), len(program.rows)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, rows
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.array(program.objective, dtype=np.double)
    lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.ones(columns)
    lp.row_lower_ = np.full(rows, -highspy.kHighsInf)
    lp.row_upper_ = np.array([upper for _, _, upper in program.rows], dtype=np.double)
    lengths = [len(indices) for indices, _, _ in program.rows]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(lengths, dtype=np.int32))).astype(np.int32)
    lp.a_matrix_.index_ = np.array([i for indices, _, _ in program.rows for i in indices], dtype=np.int32)
    lp.a_matrix_.value_ = np.array([v for _, values, _ in program.rows for v in values], dtype=np.double)
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if binary else kinds.kContinuous for binary in program.binary]
    return lp


def _start_from(highspy: Any, highs: Any, program: Program, start: Sequence[int]) -> None:
    values = np.zeros(len(program.objective))
    values[list(start)] = 1.0
    for indices, coefficients, upper in program.rows:
        # A helper column stands with -1 beside the binary it must cover: raise it where that one is taken.
        if upper == 0.0 and len(indices) == 2 and coefficients[1] == -1.0 and values[indices[0]]:
            values[indices[1]] = 1.0
    solution = highspy.HighsSolution()
    solution.col_value = values
    highs.setSolution(solution)


def _solution(highs: Any, values: Any, program: Program) -> Solution:
    """Read the incumbent and check it against the program's rows: the solver is not trusted to be feasible."""
    status = str(highs.getModelStatus()).rpartition(".k")[2]
    info = highs.getInfo()
    bound_or_none = info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else None
    chosen = tuple(k for k, binary in enumerate(program.binary) if binary and k < len(values) and values[k] > 0.5)
    if not math.isfinite(info.objective_function_value) or not len(values) or not _feasible(program, chosen):
        return Solution("time-limit" if status == "TimeLimit" else "failed", None, None, bound_or_none, None)
    objective = math.fsum(program.objective[k] for k in chosen)
    proven = relative_gap(objective, bound_or_none)
    name = {"Optimal": "gap" if proven else "optimal", "TimeLimit": "time-limit"}.get(status, "failed")
    return Solution(name, chosen, objective, bound_or_none, proven)


def relative_gap(objective: float, bound: float | None) -> float | None:
    """(bound - objective) / objective, 0 below the solver's tolerances; None when no bound was proven."""
    if bound is None:
        return None
    if objective <= 0:
        return 0.0 if bound <= 1e-9 else None
    gap = max(0.0, bound - objective) / objective
    return 0.0 if gap < 1e-7 else gap


def _feasible(program: Program, chosen: Sequence[int]) -> bool:
    taken = set(chosen)
    # Rows with helper columns are left to the ledger, which checks every placement as it is taken.
    return all(
        sum(value for index, value in zip(indices, coefficients, strict=True) if index in taken) <= upper + 1e-6
        for indices, coefficients, upper in program.rows
        if all(program.binary[index] for index in indices)
    )
