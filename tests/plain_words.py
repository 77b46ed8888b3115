"""Words that a reader with English as a second language stumbles over, counted in docstrings, comments, messages and documents.

`python -m tests.plain_words` prints each line of them; with names of patterns behind it, those alone.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("portal/", "scheduler/", "workers/", "client/", "research/", "tests/", "berth", "manage.py")
NOUN = r"(?:^|[.;:,(—] ?|\b(?:of|for|from|to|by|with|than|and|or|but|as|all|return|yield|count|keep|hold|give|find|read|list) )"
PATTERNS = {
    "who": re.compile(rf"{NOUN}(?:who|whom|whoever)\b", re.IGNORECASE),
    "what": re.compile(rf"{NOUN}(?:what|whatever)\b(?! (?:to|if)\b)", re.IGNORECASE),
    "told": re.compile(r"\b(?:un)?told\b", re.IGNORECASE),
    "alike": re.compile(r"\balike\b", re.IGNORECASE),
    "alone": re.compile(r"\balone\b", re.IGNORECASE),
    "so many": re.compile(r"\bso (?:many|much|long|often)\b(?! (?:as|that)\b)", re.IGNORECASE),
}
STARTS = re.compile(r"^(?:Of|So)\b")
COMMENT = re.compile(r"(?:^|\s)# (.*)")
GOOD = re.compile(
    r"\b(?:let alone|leave \w+ alone|runs? alone|is alone|are alone|lives? alone|stand[s]? alone)\b", re.IGNORECASE
)
"""Uses that any dictionary has."""


def texts_of(path: Path):
    """Yield (line, kind, text) of what people read in a file."""
    text = path.read_text(errors="replace")
    if path.suffix == ".md":
        code = False
        for number, line in enumerate(text.splitlines(), 1):
            code ^= line.startswith("```")
            if not code and not line.startswith("    "):
                yield number, "document", re.sub(r"`[^`]*`", "`", line)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if comment := COMMENT.search(line):
            yield number, "comment", comment[1]
    sentences = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                sentences.add(id(each.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            kind = "start" if id(node) in sentences else "message"
            yield from (
                (node.lineno + i, "text" if i else kind, line) for i, line in enumerate(node.value.splitlines())
            )


def found():
    """Yield (pattern, path, line, text) of each."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in listed:
        path = ROOT / name
        document = path.suffix == ".md" and not name.startswith(("docs/decisions/", "CHANGELOG"))
        source = name.startswith(SOURCES) and (path.suffix == ".py" or name == "berth") and "/migrations/" not in name
        if not path.is_file() or not (document or source) or name == "tests/plain_words.py":
            continue
        for number, kind, line in texts_of(path):
            plain = GOOD.sub("", line.strip())
            for pattern, rule in PATTERNS.items():
                yield from ((pattern, name, number, line.strip()) for _ in rule.findall(plain))
            if kind == "start" and STARTS.match(plain):
                yield "start", name, number, line.strip()


if __name__ == "__main__":
    wanted = set(sys.argv[1:])
    every = [each for each in found() if not wanted or each[0] in wanted]
    for pattern, name, number, line in every:
        print(f"{name}:{number}: {pattern}: {line}")
    print(dict(Counter(pattern for pattern, *_ in every)))
