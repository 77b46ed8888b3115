"""How Hypothesis draws: without a clock, for a busy machine is no mistake of ours; fewer examples for `./berth test --fast`.

The whole suite draws as many examples as each test asks for.
"""

import math

from hypothesis import HealthCheck, is_hypothesis_test, settings

PART, LEAST = 4, 4
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("berth")


def fewer(count):
    """Return a quarter of the examples, but four at least where there are as many."""
    return max(math.ceil(count / PART), min(count, LEAST))


def examples_cut(functions):
    """Let each test that draws examples draw fewer. A function of several parameters is met several times, and is cut once."""
    for test in {id(each): each for each in functions if is_hypothesis_test(each)}.values():
        own = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(own, max_examples=fewer(own.max_examples))
