"""The values that a pickle would build, read without building them: no class is looked up and no function is called.

A pickle is a program for a machine with a stack. This machine runs the part of it that PyTorch's checkpoints use, and
where the real one would import or call something it leaves a note of the name and the arguments (`Called`).
"""

from __future__ import annotations

import pickletools
from typing import TYPE_CHECKING, Any

from portal.work.previews.shown import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_STEPS = 1_000_000
MOST_NAME_CHARS = 500
MOST_MADE = 1_000_000
"""Values in lists and tuples, and characters of names, that are made in all."""


class Named:
    """A class or function by its name; a storage by its id (`what` = "storage")."""

    __slots__ = ("of", "what")

    def __init__(self, what: str, of: Any = None) -> None:
        self.what, self.of = what, of


class Mapping:
    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[Any, Any]] | None = None) -> None:
        self.pairs = [] if pairs is None else pairs


class Called(Mapping):
    """The result that a call would have had. `pairs` and `items` were put in later."""

    __slots__ = ("arguments", "function", "items")

    def __init__(self, function: Any, arguments: Any) -> None:
        super().__init__()
        self.function, self.arguments = function, arguments
        self.items: list[Any] = []


_MARK = object()
_VALUES = set(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BYTEARRAY8 UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 FLOAT BINFLOAT".split()
)


class Machine:
    """The stack and the memo of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.made = 0

    def run(self, data: bytes) -> Any:
        """Return the value on top of the stack at the end. Raises Unreadable."""
        try:
            for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
                if steps > MOST_STEPS:
                    raise Unreadable("it has more parts than a preview reads")
                self.step(opcode.name, argument)
            return self.stack[-1]
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise Unreadable("what it holds cannot be told without opening it") from error

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name == "BUILD":  # it sets attributes: they are forgotten
            self.stack.pop()
        elif name not in {"PROTO", "FRAME", "STOP"}:
            raise Unreadable(f"it uses {name}, which is not read here")

    def marked(self) -> list[Any]:
        """Take off what stands above the last mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError
        taken = self.stack[place + 1 :]
        self.count(len(taken))
        del self.stack[place:]
        return taken

    def put(self, taken: list[Any]) -> None:
        """Put names and values, in turn, into the mapping on top."""
        self.stack[-1].pairs.extend(zip(taken[::2], taken[1::2], strict=True))

    def gather(self) -> None:
        taken = self.marked()
        self.push(Mapping(list(zip(taken[::2], taken[1::2], strict=True))))

    def drop(self, count: int) -> None:
        self.take(count)

    def drop_marked(self) -> None:
        self.marked()

    def add(self, taken: list[Any]) -> None:
        top = self.stack[-1]
        (top if isinstance(top, list) else top.items).extend(taken)

    def take(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise IndexError
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def name(self, words: list[Any]) -> None:
        """Note a class or function. A name that no module has is refused before it is copied."""
        if sum(len(word) for word in words) > MOST_NAME_CHARS:
            raise Unreadable("a name in it is longer than a preview reads")
        self.count(len(words[0]))
        self.push(Named(".".join(words)))

    def count(self, made: int) -> None:
        self.made += made
        if self.made > MOST_MADE:
            raise Unreadable("it holds more than a preview makes")

    def keep(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def call(self) -> None:
        function, arguments = self.take(2)
        self.push(Called(function, arguments))


_STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.push(_MARK),
    "POP": lambda m, _: m.drop(1),
    "POP_MARK": lambda m, _: m.drop_marked(),
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "EMPTY_DICT": lambda m, _: m.push(Mapping()),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_SET": lambda m, _: m.push([]),
    "DICT": lambda m, _: m.gather(),
    "LIST": lambda m, _: m.push(m.marked()),
    "TUPLE": lambda m, _: m.push(tuple(m.marked())),
    "FROZENSET": lambda m, _: m.push(m.marked()),
    "TUPLE1": lambda m, _: m.push(tuple(m.take(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.take(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.take(3))),
    "APPEND": lambda m, _: m.add(m.take(1)),
    "APPENDS": lambda m, _: m.add(m.marked()),
    "ADDITEMS": lambda m, _: m.add(m.marked()),
    "SETITEM": lambda m, _: m.put(m.take(2)),
    "SETITEMS": lambda m, _: m.put(m.marked()),
    "PUT": lambda m, number: m.keep(number),
    "BINPUT": lambda m, number: m.keep(number),
    "LONG_BINPUT": lambda m, number: m.keep(number),
    "MEMOIZE": lambda m, _: m.keep(len(m.memo)),
    "GET": lambda m, number: m.push(m.memo[number]),
    "BINGET": lambda m, number: m.push(m.memo[number]),
    "LONG_BINGET": lambda m, number: m.push(m.memo[number]),
    "GLOBAL": lambda m, name: m.name(name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(m.take(2)),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BINPERSID": lambda m, _: m.push(Named("storage", m.take(1)[0])),
    "PERSID": lambda m, text: m.push(Named("storage", text)),
}
