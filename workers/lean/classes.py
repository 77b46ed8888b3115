"""Does what the shim needs of `dataclasses`: fields with defaults, `frozen`, `slots`; no inheritance of fields."""

from __future__ import annotations

from workers.lean.library import loaded

TYPE_CHECKING = False  # as `typing` has it, which is one of what is not loaded
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_MISSING = object()


class _Field:
    """What `field` says of a field: how its value comes about where none is given."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default: Any = _MISSING, default_factory: Any = _MISSING, **more: Any) -> Any:
    """Do as `dataclasses.field`; what is more than a default is the library's."""
    if more or (default is _MISSING) == (default_factory is _MISSING):
        given = {"default": default, "default_factory": default_factory, **more}
        return loaded("dataclasses").field(**{name: value for name, value in given.items() if value is not _MISSING})
    return _Field(default_factory if default is _MISSING else lambda: default)


def dataclass(kind: Any = None, /, *, frozen: bool = False, slots: bool = False, **more: Any) -> Any:
    """Do as `dataclasses.dataclass`; what is more than these two is the library's."""
    if more:
        return loaded("dataclasses").dataclass(kind, frozen=frozen, slots=slots, **more)
    if kind is None:
        return lambda later: _made(later, frozen=frozen, slots=slots)
    return _made(kind, frozen=frozen, slots=slots)


def _made(kind: Any, *, frozen: bool, slots: bool) -> Any:
    if kind.__bases__ != (object,):
        raise TypeError(f"{kind.__name__} inherits, which this stand-in does not do")
    own = vars(kind)
    names = tuple(name for name, text in own["__annotations__"].items() if not str(text).startswith("ClassVar"))
    makers = {name: _maker(own[name]) for name in names if name in own}
    body = {name: value for name, value in own.items() if name not in {"__dict__", "__weakref__"}}
    for name in makers:
        if slots or isinstance(own[name], _Field):
            del body[name]
    body |= _methods(names, makers, frozen=frozen)
    if slots:
        body["__slots__"] = names
    made = type(kind)(kind.__name__, kind.__bases__, body)
    made.__qualname__ = kind.__qualname__
    return made


def _maker(default: Any) -> Callable[[], Any]:
    return default.make if isinstance(default, _Field) else lambda: default


def _methods(names: tuple[str, ...], makers: dict[str, Callable[[], Any]], *, frozen: bool) -> dict[str, Any]:
    def begin(self: Any, *given: Any, **named: Any) -> None:
        for name, value in _values_given(type(self), names, given, named):
            object.__setattr__(self, name, value)
        for name in names[len(given) :]:
            if name not in named:
                object.__setattr__(self, name, _default(type(self), name, makers))

    def values(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def shown(self: Any) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in zip(names, values(self), strict=True))
        return f"{type(self).__qualname__}({told})"

    made: dict[str, Any] = {"__init__": begin, "__eq__": equal, "__repr__": shown, "__hash__": None}
    if frozen:
        made |= {"__hash__": lambda self: hash(values(self)), "__setattr__": _refuse, "__delattr__": _refuse}
    return made


def _values_given(
    kind: type, names: tuple[str, ...], given: tuple[Any, ...], named: dict[str, Any]
) -> Iterable[tuple[str, Any]]:
    if len(given) > len(names):
        raise TypeError(f"{kind.__name__} takes {len(names)} values, not {len(given)}")
    if strange := named.keys() - set(names[len(given) :]):
        raise TypeError(f"{kind.__name__} has no place for {', '.join(sorted(strange))}")
    return (*zip(names, given, strict=False), *named.items())


def _default(kind: type, name: str, makers: dict[str, Callable[[], Any]]) -> Any:
    if name not in makers:
        raise TypeError(f"{kind.__name__} needs a value for {name!r}")
    return makers[name]()


def _refuse(self: object, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: its {name!r} stays")
