"""Find the lines of a script that are directives, those that only look like one, and the remarks on those."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from typing import NamedTuple

from portal.foundation.errors import BerthError

MARK = "#SBATCH"
MOST_DIRECTIVES = 500
_LOOKS = re.compile(
    r"(?P<before>[^\w#$\"'-]{0,40})(?P<signs>#{1,40})(?P<space>[^\w#-]{0,40})(?P<word>SBATCH|PBS|BSUB)(?P<rest>.?)",
    re.IGNORECASE,
)
_OTHER = {"PBS", "BSUB"}
_OTHERS = re.compile(r"#(?:\$ ?(?=-)|(?:MSUB|COBALT|OAR|PJM|QSUB|FLUX:|@)(?=\s))")
_BUFFERS = re.compile(r"#(?:DW|BB)(?=\s)")
_NEAR = re.compile(r"\s*#{1,40}\s{0,10}(\w{4,8})[\s:=]{0,10}(?=--?[A-Za-z])")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
TOO_LATE = "It stands below the first command, where sbatch itself reads no more."
_COMMENT = f"sbatch takes it for a comment: a directive begins with {MARK} at the very beginning of its line."


class Problem(NamedTuple):
    """The fault of a line, and whether its options are read all the same."""

    read: bool = True
    ignored: str = ""
    refused: str = ""


class Marked(NamedTuple):
    """A line with its number."""

    number: int
    text: str
    problem: Problem


def looks(text: str) -> bool:
    """Say whether a line of the text looks like a directive; in YAML a script's own lines stand farther in."""
    return any(line[:1] not in {" ", "\t"} and _LOOKS.match(line) for line in text.splitlines())


def marked(script: str) -> list[Marked]:
    """Return each line that is a directive, or looks like one: sbatch reads to the first command."""
    found: list[Marked] = []
    reads = True
    rows = script.split("\n")
    pbs = not any(line.startswith(MARK) and "--ignore-pbs" in line for line in rows)
    for number, line in enumerate(rows, start=1):
        first, *others = line.splitlines() or [""]
        following = rows[number] if number < len(rows) else ""
        if (seen := _LOOKS.match(first)) and (first.startswith(MARK) or not seen["rest"].isalnum()):
            found.append(Marked(number, first, _problem(seen, first, following, reads=reads, pbs=pbs)))
        elif reads and _is_near(first):
            found.append(Marked(number, first, Problem(read=False, ignored=_COMMENT)))
            reads = first.lstrip().startswith("#")
        elif line.strip() and not line.lstrip().startswith("#"):
            reads = False
        elif reads and (problem := _foreign(first)) is not None:
            found.append(Marked(number, first, problem))
        hidden = "It stands behind a line end that is none for sbatch (U+{:04X}). Write an ordinary line end."
        for part in others:
            if _LOOKS.match(part):
                end = ord(line[line.index(part) - 1])
                found.append(Marked(number, part, Problem(read=False, refused=hidden.format(end))))
    if len(found) > MOST_DIRECTIVES:
        detail = f"The script has {len(found)} lines that begin with {MARK}; at most {MOST_DIRECTIVES} are read."
        raise BerthError("too_many", detail, field="text")
    return found


def _is_near(line: str) -> bool:
    """Say whether options stand behind a mark with slipped letters, or with letters of other alphabets."""
    seen = _NEAR.match(unicodedata.normalize("NFKC", line[:80]))
    word = seen[1].upper() if seen else ""
    return word == "SLURM" or SequenceMatcher(None, word, MARK[1:]).ratio() > 0.8


def _foreign(line: str) -> Problem | None:
    """Return the remark on a directive of a scheduler that sbatch does not read; None: it is none."""
    if _BUFFERS.match(line):
        return Problem(read=False, refused="There are no burst buffers here; --tmp asks for disk on the node.")
    if _OTHERS.match(line):
        words = (
            f"It is for another scheduler, and sbatch takes it for a comment; write what it asks for as {MARK} lines."
        )
        return Problem(read=False, ignored=words)
    return None


def _problem(seen: re.Match[str], line: str, following: str, *, reads: bool, pbs: bool) -> Problem:
    if not reads:
        return Problem(read=False, ignored=TOO_LATE)
    if odd := _odd(_QUOTED.sub("", line)):
        return Problem(
            read=False, refused=f"{odd} stands in this line, and sbatch does not read it. Write a plain space."
        )
    word = seen["word"]
    if word in _OTHER and line.startswith(f"#{word}") and pbs:
        return Problem(read=False, refused=f"Options of #{word} are not read here; write them as {MARK} lines.")
    if not line.startswith(MARK):
        return Problem(read=False, ignored=_COMMENT)
    if line.rstrip().endswith("\\"):
        if following.startswith(MARK):
            return Problem(ignored="sbatch joins no lines at a backslash; each line is read by itself.")
        return Problem(refused=f"sbatch joins no lines at a backslash. Begin each line with {MARK}.")
    if MARK in _QUOTED.sub("", line)[1:]:
        return Problem(ignored=f"sbatch takes its second {MARK} for a comment; write it on a line of its own.")
    return Problem()


def _odd(text: str) -> str:
    """Name the first character of a line that is white space, or nothing, to the eye, and no white space for sbatch."""
    for char in text:
        if char not in " \t" and unicodedata.category(char) in {"Zs", "Cf", "Cc", "Zl", "Zp"}:
            return f"The character {unicodedata.name(char, 'without a name').lower()} (U+{ord(char):04X})"
    return ""
