"""Which GPU types of this cluster a name of another cluster means: exactly, or as far as the names tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from portal.work.jobs.imports.amounts import NotRead, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOSER = "This match is a looser one: the names do not say that both are the same. Check it before you submit."
_PARTS = re.compile(r"[a-z0-9]{1,40}")
_GLUED = re.compile(r"([0-9])\s+(gi?b)\b")
_MEMORY = re.compile(r"([0-9]{1,3})gi?b|([0-9]{2,3})g?")
_PROFILE = re.compile(r"(?<![a-z0-9])(?:[0-9]c\.)?[1-9]g\.[0-9]{1,3}gb(?:[+-][a-z][a-z.]{0,20})*(?![a-z0-9])")
_SLICE = re.compile(r"[1-9]g|mig")
_FORM = re.compile(r"(?:sxm|pcie|nvl)[0-9]*")
_BRAND = re.compile(r"^(?:nvidia|tesla|geforce|amd|gpu|rtx|quadro|gtx)+(?=[0-9]|$)")
_MOST_MEMORY = 512


class Like(NamedTuple):
    """`looser`: the names leave open whether these types are what was asked for."""

    types: list[str]
    looser: bool


class _Name(NamedTuple):
    """The parts of a GPU's name. `model` is its other words, without the maker's."""

    model: tuple[str, ...]
    memory: frozenset[int]
    slices: frozenset[str]
    form: frozenset[str]


def types_like(gpu_types: Sequence[str], name: str) -> Like:
    """Return the types that a name means: the exact ones, else looser ones. Raises NotRead when there is none."""
    wanted = _read(name)
    known = {each: _read(each) for each in gpu_types}
    exact = [each for each, found in known.items() if found == wanted and wanted.model]
    same = exact or [each for each, found in known.items() if _is_said(wanted, found)]
    if same:
        return Like(same, looser=False)
    loose = [each for each, found in known.items() if _may_be(wanted, found)]
    if not loose:
        types = ", ".join(gpu_types) or "none"
        raise NotRead(
            f"no GPU type here is like {shown(name)}; there are: {types}. Other features of nodes are not known"
        )
    return Like(loose, looser=True)


def _read(name: str) -> _Name:
    text = _GLUED.sub(r"\1\2", name.lower())
    profiles = _PROFILE.findall(text)
    parts = _PARTS.findall(_PROFILE.sub(" ", text))
    model: list[str] = []
    memory: set[int] = set()
    slices = set(profiles)
    form: set[str] = set()
    for part in parts:
        amount = _MEMORY.fullmatch(part)
        gib = int(amount[1] or amount[2]) if amount else 0
        if 0 < gib <= _MOST_MEMORY and (model or (amount and amount[1])):
            memory.add(gib)
        elif _SLICE.fullmatch(part):
            slices |= {part} - {"mig"}
        elif _FORM.fullmatch(part):
            form.add(part.rstrip("0123456789"))
        else:
            model.append(part)
    words = [_BRAND.sub("", part) for part in model]
    return _Name(tuple(word for word in words if word), frozenset(memory), frozenset(slices), frozenset(form))


def _is_said(wanted: _Name, known: _Name) -> bool:
    """Say whether a type is one of those that the name means: same model, and all that the name says is true of it.

    A profile of instances (`1g.10gb`) is a name without a model: it means instances of every model.
    """
    model = "".join(wanted.model)
    return (
        (model == "".join(known.model) if model else bool(wanted.slices))
        and wanted.memory <= known.memory
        and wanted.slices == known.slices
        and wanted.form <= known.form
    )


def _may_be(wanted: _Name, known: _Name) -> bool:
    """Say whether nothing of a type's name speaks against it, though it leaves open, or adds, a part of the name."""
    slices = wanted.slices in (known.slices, {each.partition(".")[0] for each in known.slices})
    if not slices or not wanted.model or not known.model:
        return False
    if any(one and other and one != other for one, other in ((wanted.memory, known.memory), (wanted.form, known.form))):
        return False
    return _begins("".join(wanted.model), known.model) or _begins("".join(known.model), wanted.model)


def _begins(text: str, words: tuple[str, ...]) -> bool:
    """Say whether whole words, from the first, are the text; a10 does not begin a100."""
    return any("".join(words[:end]) == text for end in range(1, len(words) + 1))
