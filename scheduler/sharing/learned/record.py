"""A policy's file, as bytes: the network, how it was trained, and the state to go on from (`train-sharing`, section 12).

An archive of numpy's arrays (`.npz`) without pickled objects: a file from elsewhere can be wrong, but runs nothing. The same
training gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scheduler.sharing.learned.images import RESOURCES, STEPS, STRIDE, Frame, Limits
from scheduler.sharing.learned.training import HIDDEN, Network, Recipe, Training, Workloads, shapes
from scheduler.sharing.series import Floats

FORMAT = 1
KEPT = ("network", "target", "moments", "squares")
SHAPE = {"steps": STEPS, "stride": STRIDE, "resources": RESOURCES, "hidden": list(HIDDEN)}
MOST_BYTES = 64 * 2**20


class PolicyFileError(ValueError):
    """A policy's file that cannot be used; a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a file. `about`: the training record (source, workloads, law, how long a step is, the result)."""

    frame: Frame
    limits: Limits
    recipe: Recipe
    seed: int
    curve: tuple[float, ...]
    about: Mapping[str, Any]
    layers: Mapping[str, tuple[Floats, ...]]
    drawn: Mapping[str, Any]

    @property
    def network(self) -> Network:
        return Network(self.frame, self.layers["network"])

    @property
    def over(self) -> bool:
        """Whether its training came to its end."""
        return len(self.curve) >= self.recipe.updates

    def resumed(self, workloads: Workloads) -> Training:
        """Return the training as it was when this was stored: going on gives what it would have given without a break."""
        training = Training(self.frame, workloads, self.recipe, self.seed)
        training.network, training.target = self.network, Network(self.frame, self.layers["target"])
        training.moments = [layer.copy() for layer in self.layers["moments"]]
        training.squares = [layer.copy() for layer in self.layers["squares"]]
        training.curve = list(self.curve)
        training.rng.bit_generator.state = self.drawn
        return training


def packed(training: Training, limits: Limits, about: Mapping[str, Any]) -> bytes:
    """Return the file of a training, finished or not. `about`: plain values, as JSON knows them."""
    frame = training.network.frame
    record = {
        "format": FORMAT,
        "shape": SHAPE,
        "frame": asdict(frame),
        "limits": {**asdict(limits), "slowest": limits.slowest if np.isfinite(limits.slowest) else None},
        "recipe": asdict(training.recipe),
        "seed": training.seed,
        "curve": training.curve,
        "about": about,
        "drawn": training.rng.bit_generator.state,
    }
    arrays: dict[str, np.ndarray] = {
        "record": np.frombuffer(json.dumps(record, sort_keys=True).encode(), dtype=np.uint8)
    }
    kept = (training.network.layers, training.target.layers, training.moments, training.squares)
    for name, layers in zip(KEPT, kept, strict=True):
        arrays |= {f"{name}_{n}": layer for n, layer in enumerate(layers)}
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]  # each is an array
    return out.getvalue()


def unpacked(content: bytes) -> Stored:
    """Return a file's content. Raises PolicyFileError for a file of another kind, older or newer than this code, or damaged."""
    if len(content) > MOST_BYTES:
        raise PolicyFileError(f"it has {len(content)} bytes; a policy's file has at most {MOST_BYTES}")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            record = json.loads(bytes(arrays["record"]))
            _check(record)
            frame = Frame(**record["frame"])
            layers = {name: tuple(arrays[f"{name}_{n}"] for n in range(len(shapes(frame)))) for name in KEPT}
    except PolicyFileError:
        raise
    except (ValueError, KeyError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise PolicyFileError(f"it is no policy's file, or is damaged ({type(error).__name__}: {error})") from error
    return _stored(record, frame, layers)


def _check(record: Mapping[str, Any]) -> None:
    if record["format"] != FORMAT:
        raise PolicyFileError(f"it is of format {record['format']}, and this Berth reads format {FORMAT}: train again")
    if record["shape"] != SHAPE:
        raise PolicyFileError("it was trained for images or layers of another shape than this Berth's: train again")


def _stored(record: Mapping[str, Any], frame: Frame, layers: Mapping[str, tuple[Floats, ...]]) -> Stored:
    for name, found in layers.items():
        if [each.shape for each in found] != shapes(frame) or not all(np.isfinite(each).all() for each in found):
            raise PolicyFileError(
                f"its {name} has layers of other shapes than its frame, or values that are no numbers"
            )
    try:
        limits = dict(record["limits"])
        limits["slowest"] = np.inf if limits["slowest"] is None else limits["slowest"]
        curve = tuple(float(each) for each in record["curve"])
        return Stored(
            frame,
            Limits(**limits),
            Recipe(**record["recipe"]),
            int(record["seed"]),
            curve,
            record["about"],
            layers,
            record["drawn"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyFileError(f"its training record is damaged ({type(error).__name__}: {error})") from error
