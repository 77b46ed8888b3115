"""Light classes, JSON and `suppress` do what the library's do."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest

from workers.lean import classes
from workers.lean.contexts import suppress
from workers.lean.texts import dumps, loads

READ = [
    '{"a": [1, 2.5, -3e7, "ü\\u00fc\\n", true, false, null]}',
    " [ ] \n",
    "1",
    '"x"',
    "NaN",
    "-Infinity",
    "1e999",
    "",
    " ",
    "{",
    "[1,]",
    '{"a": 1, "a": 2}',
    "1 2",
    "nul",
    '"\\ud800"',
    '"\x01"',
    b'{"a": "\xc3\xbc"}',
    b"\xff",
    b"\xef\xbb\xbf{}",
    "\ufeff{}",
    "[]".encode("utf-16"),
    '{"a": 1}' + " " * 5000,
    b"{}\0",
    "[" * 100_000,
    "9" * 5000,
    b'"\xed\xa0\x80"',
    "\xa0{}",
    7,
    None,
]
WRITTEN = [
    {"a": [1, 2.5, "ü\n\ud800", True, None], 1: "one", None: 2, False: 3, 2.5: 4},
    [],
    "",
    1e300,
    float("nan"),
    (1, (2,)),
    {"b": 1, "a": 2},
    {1, 2},
    b"x",
    object,
    {(1, 2): 3},
    10**30,
]


def end_of(doing):
    try:
        return repr(doing())
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return type(error), str(error)


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_texts_are_read_and_refused_as_by_the_library(text):
    assert end_of(lambda: loads(text)) == end_of(lambda: json.loads(text))


@pytest.mark.parametrize("value", WRITTEN, ids=range(len(WRITTEN)))
def test_values_are_written_and_refused_as_by_the_library(value):
    assert end_of(lambda: dumps(value)) == end_of(lambda: json.dumps(value))


def test_a_circle_is_refused():
    circle: list = []
    circle.append(circle)
    with pytest.raises(ValueError, match="Circular"):
        dumps(circle)


def kinds(maker):
    """Return classes of the forms that the shim has, made by `maker`."""

    @maker.dataclass(frozen=True, slots=True)
    class Home:
        """Its words."""

        path: str
        version: int = 2

        def written(self) -> str:
            return f"{self.path}{self.version}"

        @classmethod
        def of(cls, path):
            return cls(path)

    @maker.dataclass(slots=True)
    class Group:
        homes: dict
        seen: list = maker.field(default_factory=list)
        limit: float | None = maker.field(default=1.5)
        _own: int = 0

    @maker.dataclass
    class Plain:
        one: int
        two: int = 2

    return Home, Group, Plain


USES = {
    "shown": lambda home, group, plain: [repr(home("a")), repr(group({})), repr(plain(1)), str(home.of("x"))],
    "equal": lambda home, group, plain: [
        home("a") == home("a", 2),
        home("a") == home("b"),
        group({}) != group({}, [1]),
    ],
    "other kind": lambda home, group, plain: [home("a") == 1, plain(1) == group({}), plain(1) == plain(1)],
    "hash": lambda home, group, plain: hash(home("a")) == hash(home("a")),
    "no hash": lambda home, group, plain: hash(group({})),
    "no hash without slots": lambda home, group, plain: hash(plain(1)),
    "frozen": lambda home, group, plain: setattr(home("a"), "path", "b"),
    "frozen too": lambda home, group, plain: delattr(home("a"), "path"),
    "slots": lambda home, group, plain: setattr(group({}), "nothing", 1),
    "changed": lambda home, group, plain: changed(group({})),
    "no slots": lambda home, group, plain: changed(plain(1)),
    "own lists": lambda home, group, plain: group({}).seen is group({}).seen,
    "methods": lambda home, group, plain: [home("a").written(), home.__doc__, home.__name__, home.__qualname__],
    "class value": lambda home, group, plain: plain.two,
    "too few": lambda home, group, plain: home(),
    "too many": lambda home, group, plain: home("a", 1, 2),
    "twice": lambda home, group, plain: home("a", path="b"),
    "unknown": lambda home, group, plain: home("a", other=1),
}


def changed(value):
    for name in ("limit", "two"):
        with contextlib.suppress(AttributeError):
            setattr(value, name, 7)
    return repr(value)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_classes_behave_as_the_librarys(use):
    """Errors by their kind: their words are another's. `FrozenInstanceError` is an AttributeError."""
    ends = []
    for maker in (classes, dataclasses):
        end = end_of(lambda maker=maker: use(*kinds(maker)))
        ends.append(
            AttributeError if end[0] is dataclasses.FrozenInstanceError else end if isinstance(end, str) else end[0]
        )
    assert ends[0] == ends[1]


def test_a_class_that_inherits_is_refused_at_once():
    home, _, _ = kinds(classes)
    with pytest.raises(TypeError, match="inherits"):
        classes.dataclass(slots=True)(type("More", (home,), {"__annotations__": {"more": "int"}}))


def test_a_field_that_is_more_than_a_default_is_the_librarys():
    assert isinstance(classes.field(default=1, repr=False), dataclasses.Field)


def test_only_these_exceptions_are_ignored():
    with suppress(OSError, KeyError):
        raise FileNotFoundError
    with suppress(OSError):
        pass
    with pytest.raises(ValueError, match="mine"), suppress(OSError):
        raise ValueError("mine")
