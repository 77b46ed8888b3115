"""The same programs stated in PuLP: an independent reading of a matrix, to hold ours against."""

import math

import numpy as np
import pulp

from scheduler.placement.solver import highs_options


def solve_matrix_pulp(matrix, *, gap, time_limit_s, seed):
    """The same through PuLP's model, to hold `solve_matrix` against."""
    problem = pulp.LpProblem("aggregated", pulp.LpMaximize)
    columns = [
        problem.add_variable(f"x{k:07d}", 0, upper if math.isfinite(upper) else None, pulp.LpInteger)
        for k, upper in enumerate(matrix.upper)
    ]
    problem += pulp.LpAffineExpression(zip(columns, matrix.cost, strict=True))
    rows = [[] for _ in matrix.row_upper]
    for column, begin, end in zip(columns, matrix.starts[:-1], matrix.starts[1:], strict=True):
        for row, value in zip(matrix.index[begin:end], matrix.value[begin:end], strict=True):
            rows[row].append((column, value))
    for k, (access_rules, upper) in enumerate(zip(rows, matrix.row_upper, strict=True)):
        problem += pulp.LpConstraint(pulp.LpAffineExpression(access_rules), pulp.LpConstraintLE, f"r{k:07d}", upper)
    solver = pulp.HiGHS(msg=False, gapRel=gap, threads=1, timeLimit=max(0.001, time_limit_s), **highs_options(seed))
    problem.solve(solver)
    bound = -problem.solverModel.getInfo().mip_dual_bound
    return np.round([column.varValue or 0.0 for column in columns]), bound
