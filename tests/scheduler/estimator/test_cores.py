"""Where the core search starts (CODA V-B.1; algorithms.md section 8)."""

from scheduler.estimator.cores import begin_cores, is_corrected, start_cores

START_CORES = [
    ({"category": "cv"}, 3),
    ({"category": "nlp"}, 5),
    ({"category": "speech"}, 5),
    ({"category": "other"}, 4),
    ({"category": None}, 4),
    ({"category": "cv", "tuned": {"cv": 7, "nlp": 9}}, 7),
    ({"category": "cv", "tuned": {"nlp": 9}}, 3),
    ({"category": "other", "tuned": {"other": 2, "nlp": 9}}, 2),
    ({"category": "other", "tuned": {"nlp": 9}}, 9),
    ({"category": "cv", "tuned": {None: 9}}, 3),
    ({"category": None, "tuned": {"cv": 7, "nlp": 9, None: 2}}, 9),
    ({"category": "cv", "pipelined": True}, 2),
    ({"category": "cv", "model_parameters": 100_000_000}, 3),
    ({"category": "cv", "model_parameters": 100_000_001}, 2),
    ({"category": "cv", "heavy_between_iterations": True}, 4),
    ({"category": "nlp", "tuned": {"nlp": 7}, "pipelined": True, "heavy_between_iterations": True}, 7),
    ({"category": "nlp", "pipelined": True, "model_parameters": 10**9, "heavy_between_iterations": True}, 4),
    ({"category": "cv", "tuned": {"cv": 1}, "pipelined": True, "model_parameters": 10**9}, 1),
]


def test_start(subtests):
    for hints, expected in START_CORES:
        with subtests.test(hints=hints):
            assert start_cores(**{"tuned": {}, **hints}) == expected


def test_a_job_begins_with_n_start_whatever_it_asks_unless_nobody_corrects_it(subtests):
    for what, expected in (
        ({}, 5),
        ({"asked": 12}, 5),
        ({"asked": 1}, 5),
        ({"asked": 12, "exactly": True}, 12),
        ({"asked": 12, "corrected": False}, 12),
        ({"corrected": False}, 5),
        ({"own": 4}, 4),
        ({"asked": 12, "own": 4}, 4),
        ({"asked": 12, "own": 4, "exactly": True}, 12),
        ({"asked": 12, "own": 4, "corrected": False}, 12),
    ):
        with subtests.test(what=what):
            assert begin_cores(5, **what) == expected


def test_on_a_part_of_a_gpu_it_is_a_part_of_n_start():
    assert [start_cores(category="nlp", tuned={}, part=part) for part in (0.05, 0.5, 0.7, 1.0)] == [1, 2, 4, 5]


def test_a_job_is_corrected_where_one_node_tunes_that_it_fits_on(subtests):
    mig = "A100 MIG 1g.10gb"
    for requirement, types, tuning, expected in (
        ((1,), set(), {"A100": 4}, True),
        ((1,), set(), {}, False),
        ((4, 8), {"A100"}, {"A100": 4, "T4": 8}, True),
        ((8,), {"A100"}, {"A100": 4, "T4": 8}, False),
        ((8,), set(), {"A100": 4, "T4": 8}, True),
        ((1,), {"V100"}, {"A100": 4}, False),
        ((1,), {mig}, {mig: 7}, True),
        ((1,), set(), {mig: 7}, False),
        ((0,), set(), {"A100": 4}, False),
    ):
        with subtests.test(requirement=requirement, types=types, tuning=tuning):
            assert is_corrected(requirement, types, tuning) is expected
