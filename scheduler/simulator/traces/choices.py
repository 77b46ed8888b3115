"""Checks of a trace format's options. Each error names the option."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler.simulator.traces.source import TraceError

GPU_SPEEDS = "relative speeds of GPU types, as A100=2,T4=0.5 (the cluster's, unless given); a type not named has 1"
CORES = "CPU cores that a job wants per GPU where the trace does not say; default 1"
MOVABLE = "no (default): jobs run to their end; yes: they may be stopped and go on later"


class Choices:
    """Check that the format has these options; TraceError for one that it does not have."""

    def __init__(self, file: str, options: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._file, self._options = file, options
        if unknown := sorted(set(options) - set(known)):
            raise TraceError(file, None, None, f"there is no option {unknown[0]!r}; the options are {', '.join(known)}")

    def _wrong(self, name: str, detail: str) -> TraceError:
        return TraceError(self._file, None, None, f"option {name}: {self._options[name]!r} {detail}")

    def word(self, name: str, *words: str) -> str:
        """One of the words; the first where nothing is said."""
        word = self._options.get(name, words[0])
        if word not in words:
            raise self._wrong(name, f"is not one of {', '.join(words)}")
        return word

    def whole(self, name: str, default: int) -> int:
        """A whole number of 1 or more."""
        text = self._options.get(name, str(default))
        if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= 1):
            raise self._wrong(name, "is not a whole number of 1 or more")
        return int(text)

    def speeds(self) -> dict[str, float]:
        """The option `gpu_speeds`."""
        found: dict[str, float] = {}
        for part in filter(None, self._options.get("gpu_speeds", "").split(",")):
            name, _, text = part.partition("=")
            try:
                speed = float(text)
            except ValueError:
                speed = math.nan
            if not (math.isfinite(speed) and speed > 0):
                raise self._wrong("gpu_speeds", f"is not a list like A100=2,T4=0.5: {part!r} gives no speed above 0")
            found[name.strip()] = speed
        return found
