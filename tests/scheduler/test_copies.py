"""`scheduler.copies.replace` is `dataclasses.replace`, sooner."""

import dataclasses

import pytest

from scheduler import copies
from scheduler.estimator.tuner import begin
from tests.scheduler.builders import job, node


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (job(1, 1, 2, gpu_types=frozenset({"a"})), {"wait_s": 7.0, "requirement": (4,)}),
        (job(1), {}),
        (node(2, 4), {"idle_gpus": ()}),
        (begin(2, 8, fast=True), {"cores": 3, "leapt": 3}),
    ],
)
def test_it_is_what_the_standard_library_makes(value, changes):
    made = copies.replace(value, **changes)
    assert made == dataclasses.replace(value, **changes)
    assert type(made) is type(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    count: int
    twice: int = dataclasses.field(default=0, init=False)

    def __post_init__(self):
        if self.count < 0:
            raise ValueError("count is below 0")
        object.__setattr__(self, "twice", 2 * self.count)


def test_what_a_class_checks_and_derives_it_does_for_a_copy_too():
    assert copies.replace(Checked(1), count=4).twice == 8
    with pytest.raises(ValueError, match="below 0"):
        copies.replace(Checked(1), count=-1)


def test_a_field_that_is_not_there_or_not_to_be_given_is_refused():
    for name in ("other", "twice"):
        with pytest.raises(KeyError, match=name):
            copies.replace(Checked(1), **{name: 1})
