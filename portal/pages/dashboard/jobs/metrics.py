"""The figures that a job wrote into its curves: their order, and which value of each is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LOWER = re.compile(r"loss|err|perplexity|ppl|wer|cer|mae|mse|nll|bp[bcd]|fid", re.IGNORECASE)
_HIGHER = re.compile(
    r"acc|top-?[0-9]|f1|auc|map|bleu|rouge|score|reward|iou|dice|psnr|ssim|recall|precision", re.IGNORECASE
)
_ASIDE = re.compile(r"lr|learning[-_ ]?rate|epoch|step|iter|time|sec|_s\Z|/s|per[-_]s|mem|grad|norm|gpu", re.IGNORECASE)


@dataclass(frozen=True)
class Told:
    """One value of a metric. `best`: the best one, else the last one."""

    name: str
    value: float
    step: float
    best: bool


def is_lower_better(name: str) -> bool:
    """Guess by its name whether a metric is to fall."""
    return _HIGHER.search(name) is None and _LOWER.search(name) is not None


def ordered(names: Iterable[str]) -> list[str]:
    """Return the names with those first that say how well it learns, and last those that say how it runs."""
    return sorted(names, key=_rank)


def _rank(name: str) -> int:
    last = name.rpartition("/")[2]
    if _HIGHER.search(last):
        return 0
    return 1 if _LOWER.search(last) else 3 if _ASIDE.search(last) else 2


def told_of(name: str, series: Sequence[Any]) -> Told | None:
    """Return the best value of a metric that is to rise, the last of any other; None where it has none."""
    points = [(value, step) for step, value in zip(*series, strict=True) if value is not None]
    if not points:
        return None
    best = _HIGHER.search(name) is not None
    value, step = max(points) if best else points[-1]
    return Told(name, value, step, best)


def figures_of(series: Mapping[str, Sequence[Any]], most: int) -> list[Told]:
    found = (told_of(name, series[name]) for name in ordered(series))
    return [told for told in found if told is not None][:most]


def value_words(value: float) -> str:
    """0.70631 -> "0.706", 1804.2 -> "1 804", 0.00002 -> "2e-05"."""
    size = abs(value)
    if size >= 1000:
        return number(value) if size < 1e9 else f"{value:.3g}"
    return f"{value:#.3g}".rstrip(".") if size >= 0.001 else f"{value:.3g}"
