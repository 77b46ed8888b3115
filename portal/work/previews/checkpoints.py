"""Checkpoints: names, types and shapes of their tensors. PyTorch's zip files without unpickling, and safetensors.

Of zip files the directory's entries are read, and the first bytes of a member. Nothing is unpacked beyond a set size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.work.previews.archives import beginning, opened
from portal.work.previews.arrays import shape_words
from portal.work.previews.shown import MIB, Group, Inside, Member, Source, Unreadable, cut
from portal.work.previews.texts import parsed
from portal.work.previews.unpickled import Called, Machine, Mapping, Named

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_PICKLE_BYTES = 4 * MIB
MOST_HEADER_BYTES = MIB
MOST_TENSORS = 300
MOST_DEPTH = 12
MOST_WALKED = 100_000
MOST_FACTS = 24
MOST_GROUPS = 24
_STORAGES = (
    "Float float32 4, Double float64 8, Half float16 2, BFloat16 bfloat16 2, Long int64 8, Int int32 4, Short int16 2, "
    "Char int8 1, Byte uint8 1, Bool bool 1, ComplexFloat complex64 8, ComplexDouble complex128 16"
)
STORAGES = {kind: (name, int(width)) for kind, name, width in (each.split() for each in _STORAGES.split(", "))}
_DATA = "data.pkl"


def checkpoint_preview(source: Source) -> Inside | None:
    """Return the contents of a PyTorch checkpoint; None for a zip file that is none. Raises Unreadable."""
    with opened(source) as archive:
        found = [each for each in archive.infolist()[:10_000] if each.filename.rpartition("/")[2] == _DATA]
        if not found:
            return None
        data = beginning(archive, found[0], MOST_PICKLE_BYTES + 1)
    if len(data) > MOST_PICKLE_BYTES:
        raise Unreadable("its list of tensors is longer than a preview reads")
    return _inside(_Walk().over(Machine().run(data)))


def safetensors_preview(source: Source) -> Inside:
    """Return the tensors in the header of a safetensors file. Raises Unreadable."""
    length = int.from_bytes(source.at(0, 8), "little")
    if not 2 <= length <= min(MOST_HEADER_BYTES, source.size - 8):
        raise Unreadable("its header is longer than a preview reads, or than the file")
    listed = parsed(source.at(8, length))
    if not isinstance(listed, dict):
        raise Unreadable("its header is no list of tensors")
    walk = _Walk()
    told = listed.pop("__metadata__", {})
    for name, value in told.items() if isinstance(told, dict) else []:
        walk.facts.append((cut(name, 60), cut(str(value), 80)))
    for name, value in listed.items():
        if isinstance(value, dict) and (found := _listed(value)):
            walk.tensors.append(((name,), found))
    return _inside(walk)


class Tensor(NamedTuple):
    kind: str
    sides: list[int]
    bytes: int


def _listed(value: dict[str, Any]) -> Tensor | None:
    sides, span = value.get("shape"), value.get("data_offsets")
    if not isinstance(sides, list) or not isinstance(span, list) or not _are_sides(sides) or not _are_sides(span):
        return None
    if len(span) != 2 or span[1] < span[0]:
        return None
    return Tensor(cut(str(value.get("dtype")), 20), sides, span[1] - span[0])


def _are_sides(sides: Any) -> bool:
    whole = isinstance(sides, (list, tuple)) and len(sides) <= 16 and all(type(side) is int for side in sides)
    return whole and all(0 <= side < 2**53 for side in sides) and math.prod(sides) < 2**63


class _Walk:
    """Collects tensors and single values, level by level, with the names that lead to them."""

    def __init__(self) -> None:
        self.tensors: list[tuple[tuple[str, ...], Tensor]] = []
        self.facts: list[tuple[str, str]] = []
        self.judged: dict[int, Tensor | None] = {}

    def over(self, top: Any) -> _Walk:
        waiting: list[tuple[tuple[str, ...], Any]] = [((), top)]
        for walked, (path, value) in enumerate(waiting):  # it grows while it is walked
            if walked > MOST_WALKED or len(waiting) > 2 * MOST_WALKED:
                raise Unreadable("it has more parts than a preview reads")
            if tensor := self.judge(value):
                self.tensors.append((path, tensor))
            elif len(path) < MOST_DEPTH:
                waiting.extend(((*path, name), each) for name, each in _parts(value))
            if path and len(path) <= 2 and type(value) in (int, float, str, bool):
                self.facts.append((cut(".".join(path), 60), _word(value)))
        return self

    def judge(self, value: Any) -> Tensor | None:
        """Judge each object once, however many names lead to it; all live as long as the walk."""
        if not isinstance(value, Called):
            return None
        if id(value) not in self.judged:
            self.judged[id(value)] = tensor_of(value)
        return self.judged[id(value)]


def _word(value: Any) -> str:
    """A whole number may have more digits than Python turns into text."""
    return "a very large number" if type(value) is int and abs(value) >= 2**63 else cut(str(value), 80)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Return the values inside, with their names; nothing for a plain value."""
    if isinstance(value, Mapping):
        yield from (
            (cut(key if isinstance(key, str) else _word(key), 120), each)
            for key, each in value.pairs
            if type(key) in (str, int)
        )
    if isinstance(value, Called):
        yield from ((str(place), each) for place, each in enumerate(value.items))
    if isinstance(value, (list, tuple)):
        yield from ((str(place), each) for place, each in enumerate(value))


def tensor_of(value: Any) -> Tensor | None:
    """Return the tensor that a call would have built; None when it would build something else."""
    for _ in range(3):  # a parameter is a call around a tensor's
        if not (isinstance(value, Called) and isinstance(value.function, Named) and isinstance(value.arguments, tuple)):
            return None
        name, given = value.function.what, value.arguments
        if name.startswith("torch._utils._rebuild_parameter") and given:
            value = given[0]
            continue
        if not name.startswith("torch._utils._rebuild_tensor") or len(given) < 3:
            return None
        return _rebuilt(given[0], given[2])
    return None


def _rebuilt(storage: Any, sides: Any) -> Tensor | None:
    known = isinstance(storage, Named) and isinstance(storage.of, tuple) and len(storage.of) > 1
    if not known or not isinstance(storage.of[1], Named) or not _are_sides(sides):
        return None
    kind, width = STORAGES.get(storage.of[1].what.rpartition(".")[2].removesuffix("Storage"), ("unknown type", 0))
    return Tensor(kind, list(sides), math.prod(sides) * width)


def _inside(walk: _Walk) -> Inside:
    """Put together groups by the first name (of a checkpoint with parts) and the first tensors."""
    parts: dict[str, list[Tensor]] = {}
    for path, tensor in walk.tensors:
        parts.setdefault(path[0] if len(path) > 1 else "all", []).append(tensor)
    groups = [_group(name, tensors) for name, tensors in parts.items()]
    members = [
        Member(cut(".".join(path), 160), f"{shape_words(tensor.sides)} {tensor.kind}", tensor.bytes)
        for path, tensor in walk.tensors[:MOST_TENSORS]
    ]
    count = len(walk.tensors)
    rest = f"The first {MOST_TENSORS} of {count} tensors." if count > MOST_TENSORS else None
    return Inside(
        "Tensors, read without opening the pickle", members, groups[:MOST_GROUPS], walk.facts[:MOST_FACTS], rest
    )


def _group(name: str, tensors: list[Tensor]) -> Group:
    kinds = sorted({tensor.kind for tensor in tensors})
    numbers = sum(math.prod(tensor.sides) for tensor in tensors)
    return Group(
        cut(name, 60), len(tensors), numbers, sum(tensor.bytes for tensor in tensors), cut(", ".join(kinds), 60)
    )
