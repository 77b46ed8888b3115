"""A policy's file: the same bytes from the same training, gone on with as if never stopped, refused where it is wrong."""

import io
import json
import zipfile
from functools import cache

import numpy as np
import pytest

from scheduler.sharing.learned.images import Frame, Limits
from scheduler.sharing.learned.record import PolicyFileError, packed, unpacked
from scheduler.sharing.learned.training import Recipe, Training
from tests.scheduler.sharing.learned.test_training import FRAME, Lever

RECIPE = Recipe(updates=6, workloads=2, plays=2, renew=2)
LIMITS = Limits()
ABOUT = {"source": "levers"}


def made(updates, recipe=RECIPE):
    training = Training(FRAME, Lever, recipe, 5)
    for _ in range(updates):
        training.update()
    return training


@cache
def kept(updates, limits=LIMITS):
    """The file of such a training: the same each time, so that one is enough for most tests."""
    return packed(made(updates), limits, ABOUT)


def changed(content, **values):
    """The file with other values in its record."""
    with np.load(io.BytesIO(content)) as arrays:
        found = dict(arrays)
    record = json.loads(bytes(found["record"])) | values
    found["record"] = np.frombuffer(json.dumps(record).encode(), dtype=np.uint8)
    out = io.BytesIO()
    np.savez(out, **found)
    return out.getvalue()


def test_the_same_seed_gives_the_same_file_byte_for_byte():
    assert packed(made(6), LIMITS, ABOUT) == kept(6)


def test_a_training_that_was_stopped_goes_on_as_if_it_never_was():
    half = unpacked(kept(3))
    assert not half.over
    resumed = half.resumed(Lever)
    while not resumed.over:
        resumed.update()
    assert packed(resumed, LIMITS, ABOUT) == kept(6)


def test_the_record_says_how_it_was_trained():
    found = unpacked(packed(unpacked(kept(6)).resumed(Lever), Limits(1.5, 90, 1.2), ABOUT))
    assert (found.frame, found.limits, found.recipe, found.seed) == (Frame(2), Limits(1.5, 90, 1.2), RECIPE, 5)
    assert found.about == ABOUT
    assert len(found.curve) == 6
    assert found.over
    assert unpacked(kept(1)).limits.slowest == np.inf


def test_a_file_of_before_gains_is_read_and_keeps_the_mask_that_it_was_trained_with():
    old = {"slowest": 1.6, "longest": 90, "in_time": 1.2}
    assert unpacked(changed(kept(1), limits=old)).limits == Limits(1.6, 90, 1.2, None)
    assert unpacked(kept(1, Limits(gain=0.8))).limits.gain == 0.8


def test_what_cannot_be_used_is_refused_with_the_reason(subtests):
    for broken, words in [
        (lambda good: b"", "no policy's file"),
        (lambda good: b"PK nonsense", "no policy's file"),
        (lambda good: good[: len(good) // 2], "no policy's file"),
        (lambda good: changed(good, format=0), "train again"),
        (lambda good: changed(good, shape={"steps": 7}), "another shape"),
        (lambda good: changed(good, frame={"slots": 3, "together": True}), "other shapes"),
        (lambda good: changed(good, recipe={"luck": 1}), "record is damaged"),
        (lambda good: changed(good, limits={}), "record is damaged"),
    ]:
        with subtests.test(broken=broken, words=words), pytest.raises(PolicyFileError, match=words):
            unpacked(broken(kept(1)))


def test_a_file_with_code_in_it_runs_nothing():
    out = io.BytesIO()
    np.savez(out, record=np.array([print], dtype=object))
    with pytest.raises(PolicyFileError, match="no policy's file"):
        unpacked(out.getvalue())
    assert zipfile.is_zipfile(out)
