"""`${{ name }}` in a job template: where a parameter's value is put, once, and where in a shell command it may stand.

A value that holds such a text stays as it is. In a command a value is quoted by `shlex.quote`, which holds only where the shell
reads plain words. In quotes, after a backslash, in a comment, in a substitution or in a here-document the same quotes mean
something else, so a template that puts a parameter there is refused when it is saved. So is one in what a shell that is bash
computes (`$[...]`, `[[ ... ]]`, a subscript): it runs what a value says there, quoted or not. The reading errs on the safe side:
it refuses some commands that would be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from portal.foundation.errors import BerthError

NAME = r"[A-Za-z][A-Za-z0-9_]{0,39}"
OPEN = "${{"
_REFERENCE = re.compile(r"\$\{\{[ ]{0,4}(" + NAME + r")[ ]{0,4}\}\}")
MOST_DEPTH = 8
MOST_REFERENCES = 200


def whole_reference(text: str) -> str | None:
    """Return the parameter's name where the whole text is one reference."""
    found = _REFERENCE.fullmatch(text)
    return found[1] if found else None


def replaced(text: str, value_of: Callable[[str], str]) -> str:
    """Return the text with each reference replaced by `value_of(name)`. The new text is not looked at again."""
    return _REFERENCE.sub(lambda found: value_of(found[1]), text)


def references_in(text: str, field: str) -> list[tuple[int, int, str]]:
    """Return (begin, end, name) of each reference. Raises BerthError where `${{` begins none."""
    found = [(each.start(), each.end(), each[1]) for each in _REFERENCE.finditer(text)]
    if text.count(OPEN) != len(found):
        detail = f"`{field}` holds a `{OPEN}` that names no parameter; write `{OPEN} name }}}}`."
        raise BerthError("bad_reference", detail, field=field)
    return found


def texts_of(value: Any, field: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of every text in a job's fields. Raises BerthError when it is nested too deeply."""
    if depth > MOST_DEPTH:
        raise BerthError("too_deep", f"`{field}` is nested deeper than {MOST_DEPTH} levels.", field=field)
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each, field, depth + 1)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from texts_of(each, f"{field}.{name[:60]}" if depth < 2 else field, depth + 1)


PLAIN, SINGLE, DOUBLE, BRACE, PAREN, COMMENT = "plain", "single", "double", "brace", "paren", "comment"
_WHERE = {
    SINGLE: "inside quotes",
    DOUBLE: "inside quotes",
    BRACE: "inside ${...}",
    PAREN: "inside $(...)",
    COMMENT: "in a comment",
    PLAIN: "after a `$`",
}
_CLOSING = {DOUBLE: '"', BRACE: "}", PAREN: ")"}
_BEFORE_COMMENT = frozenset(" \t\n;&|()")
_WORD = re.compile(r"\w")
_CASE = re.compile(r"\bcase\b")
_NEVER = {"<<": "a here-document (`<<`)", "$'": "`$'...'`", "((": "`((`", "$[": "`$[...]`"}
_NEVER |= {f"[[{blank}": "`[[ ... ]]`" for blank in " \t\n"}
FIELD = "job.command"
_REMEDY = (
    "Its value is quoted as one argument, which holds among plain words only: write `--name ${{ name }}` without quotes, or "
    "give it as a variable in `environment`."
)


def command_check(command: str) -> list[str]:
    """Return the parameters in a command. Raises BerthError (`bad_reference`) for one that stands where quoting fails."""
    found = references_in(command, FIELD)
    if found:
        for sign, words in _NEVER.items():
            if sign in command:
                _refuse(f"`{FIELD}` has {words}, and a command with parameters may not.")
        if "$(" in command and _CASE.search(command):
            _refuse(f"`{FIELD}` has `case` and `$(...)`, and a command with parameters may not.")
        _Reader(command).read({begin: (end, name) for begin, end, name in found})
    return [name for _, _, name in found]


def _refuse(words: str) -> NoReturn:
    raise BerthError("bad_reference", f"{words} {_REMEDY}", field=FIELD)


class _Reader:
    """Follows the shell's quotes through a command, character by character."""

    def __init__(self, command: str) -> None:
        self.command, self.state = command, [PLAIN]

    def read(self, references: dict[int, tuple[int, str]]) -> None:
        at = 0
        while at < len(self.command):
            if at in references:
                at, name = self._reference(at, *references[at])
            else:
                taken = self._taken(at)
                if taken == 2 and at + 1 in references:
                    name = references[at + 1][1]
                    _refuse(f"`{FIELD}`: the parameter `{name}` stands after a backslash.")
                at += taken

    def _reference(self, at: int, end: int, name: str) -> tuple[int, str]:
        if self.state[-1] != PLAIN or self.command[at - 1 : at] == "$":
            words = _WHERE[self.state[-1]]
            _refuse(f"`{FIELD}`: the parameter `{name}` stands {words}.")
        opened = self.command.rfind("[", 0, at)
        if opened > self.command.rfind("]", 0, at) and _WORD.match(self.command[opened - 1 : opened]):
            _refuse(f"`{FIELD}`: the parameter `{name}` stands in a subscript, `NAME[...]`.")
        return end, name

    def _taken(self, at: int) -> int:
        """Take one character, or the two of an escape or of an opening sign. Return how many."""
        char, now, two = self.command[at], self.state[-1], self.command[at : at + 2]
        if now in {COMMENT, SINGLE}:
            if char == {COMMENT: "\n", SINGLE: "'"}[now]:
                self.state.pop()
            return 1
        if char == "\\":
            return 2
        if two in {"$(", "${"}:
            self.state.append(PAREN if two == "$(" else BRACE)
            return 2
        if char == "`" or (now == BRACE and char in "\"'"):
            where = "a backquote" if char == "`" else "quotes inside ${...}"
            _refuse(f"`{FIELD}` has {where}, and a command with parameters may not.")
        self._sign(char, now, self.command[at - 1 : at])
        return 1

    def _sign(self, char: str, now: str, before: str) -> None:
        if char == _CLOSING.get(now):
            self.state.pop()
        elif char == '"':
            self.state.append(DOUBLE)
        elif char == "'" and now != DOUBLE:
            self.state.append(SINGLE)
        elif char == "(" and now == PAREN:
            self.state.append(PAREN)
        elif char == "#" and now in {PLAIN, PAREN} and (not before or before in _BEFORE_COMMENT):
            self.state.append(COMMENT)
