"""Says in what a message differs from its declared shape (a TypedDict of `workers/protocol`), or from a real one."""

from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


def unlike(value: Any, shape: Any, at: str = "") -> list[str]:
    """Return where a value is not of its shape: missing and strange fields, and other types. Empty: it is."""
    if shape is Any or isinstance(shape, TypeVar):  # the rows of a generic page are checked by themselves
        return []
    if is_typeddict(shape):
        return _unlike_fields(value, shape, at) if isinstance(value, dict) else [f"{at}: {value!r} is no object"]
    origin, inner = get_origin(shape), get_args(shape)
    if origin in {Union, UnionType}:
        return [] if any(not unlike(value, each) for each in inner) else _closest(value, inner, at)
    if origin is Literal:
        return [] if value in inner else [f"{at}: {value!r} is none of {inner}"]
    if origin in {list, dict}:
        return _unlike_many(value, origin, inner[-1], at)
    kinds = (int, float) if shape is float else NoneType if shape is None else shape
    is_it = isinstance(value, kinds) and (shape is bool or not isinstance(value, bool))
    return [] if is_it else [f"{at}: {value!r} is no {getattr(shape, '__name__', shape)}"]


def _unlike_many(value: Any, kind: type, inner: Any, at: str) -> list[str]:
    if not isinstance(value, kind):
        return [f"{at}: {value!r} is no {kind.__name__}"]
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [found for name, each in pairs for found in unlike(each, inner, f"{at}[{name!r}]")]


def _unlike_fields(value: dict, shape: Any, at: str) -> list[str]:
    hints = get_type_hints(shape, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    needed = (
        hints.keys() - optional if shape.__total__ else {n for n, hint in hints.items() if get_origin(hint) is Required}
    )
    found = [f"{at}.{name} is missing" for name in sorted(needed - value.keys())]
    found += [f"{at}.{name} is none of its fields" for name in sorted(value.keys() - hints.keys())]
    for name, hint in hints.items():
        if name in value:
            plain = get_args(hint)[0] if get_origin(hint) in {Required, NotRequired} else hint
            found += unlike(value[name], plain, f"{at}.{name}")
    return found


def _closest(value: Any, shapes: tuple[Any, ...], at: str) -> list[str]:
    return min((unlike(value, each, at) for each in shapes if each is not NoneType), key=len)


def different(told: Any, real: Any, at: str = "") -> list[str]:
    """Return where a message has other fields than a real one, or values of other types; null stands for any type."""
    if isinstance(told, dict) and isinstance(real, dict):
        found = [f"{at}.{name} is sent by one of them alone" for name in sorted(told.keys() ^ real.keys())]
        return found + [
            each for name in told.keys() & real.keys() for each in different(told[name], real[name], f"{at}.{name}")
        ]
    if isinstance(told, list) and isinstance(real, list):
        return different(told[0], real[0], f"{at}[0]") if told and real else []
    if told is None or real is None or (isinstance(told, float) and type(real) is int):
        return []
    return [] if type(told) is type(real) else [f"{at}: {told!r}, and really {real!r}"]
