"""Where the core search starts (CODA V-B.1; algorithms.md section 8)."""

from scheduler.estimator.cores import start_cores

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
