"""Does what the shim needs of `json`, by the library's own scanner and encoder in C.

The package loads regular expressions for a scanner in Python that is used where there is none in C. Whatever is unusual (no
JSON, an unknown kind of value, a byte order mark) is given to the package, so that its answers and errors are the library's.
"""

from __future__ import annotations

import _json  # where `json` has its scanner and encoder from

from workers.lean.library import loaded

TYPE_CHECKING = False  # as `typing` has it, which is one of what is not loaded
if TYPE_CHECKING:
    from typing import Any

_SPACES = " \t\n\r"
_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Reading:
    """How values are read, by the names that the scanner asks for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_CONSTANTS.__getitem__)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is no kind of JSON")


_scan = _json.make_scanner(_Reading)  # type: ignore[arg-type]  # it takes whatever has these names
_encode = _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)


def loads(text: str | bytes, **more: Any) -> Any:
    """Do as `json.loads`."""
    if more:
        return loaded("json").loads(text, **more)
    try:
        plain = text.decode() if isinstance(text, bytes) else text
        value, end = _scan(plain, len(plain) - len(plain.lstrip(_SPACES)))
        if not plain[end:].strip(_SPACES):
            return value
    except (AttributeError, TypeError, ValueError, StopIteration, RecursionError):
        pass  # the package tells what is wrong
    return loaded("json").loads(text)


def dumps(value: object, **more: Any) -> str:
    """Do as `json.dumps`."""
    if more:
        return str(loaded("json").dumps(value, **more))
    try:
        return "".join(_encode(value, 0))
    except (TypeError, ValueError, RecursionError):
        return str(loaded("json").dumps(value))
