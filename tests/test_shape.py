"""The shape of the house: files, functions and folders small enough to live in, and no circle of imports."""

import ast
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from portal.foundation.layout import SOURCE as ROOT

ROOMS = ("portal", "scheduler", "workers", "client", "research")
FOLDERS = (*ROOMS, "templates", "static/js", "static/css")
DATA = {"scheduler/parameters/knobs.py", "portal/foundation/environment/variables.py", "client/berth_client/shapes.py"}
"""Lists rather than code."""
MOST_LINES, P90_LINES, MOST_FILES = 400, 225, 25
LONG_FUNCTION, LONG_SHARE = 40, 0.01
FENCES = tuple(f"# fmt: {word}" for word in ("off", "skip"))


class Module(NamedTuple):
    """The facts of a module that the rules need. Its tree goes at once: the garbage collector would walk a million nodes for each other test."""

    path: str
    lines: int
    functions: tuple  # (name, lines) of each function and method
    imports: tuple  # the full names that it imports when it runs


@cache
def modules(root=ROOT):
    """{dotted name: Module} of all our code but migrations."""
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py")) if "migrations" not in path.parts]
    names = {path: ".".join(path.relative_to(root).with_suffix("").parts).removeprefix("client.") for path in files}
    return {names[path].removesuffix(".__init__"): module(path.relative_to(root), path.read_text()) for path in files}


def module(path, text):
    body = ast.parse(text).body
    defined = [each for each in statements(body) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    measured = tuple((each.name, each.end_lineno - each.lineno + 1) for each in defined)
    return Module(path.as_posix(), text.count("\n"), measured, tuple(imports(body)))


def lines(root=ROOT):
    return {each.path: each.lines for each in modules(root).values()}


def long_files(root=ROOT):
    return {path: count for path, count in lines(root).items() if count > MOST_LINES and path not in DATA}


def statements(body, *, without=None):
    """The statements and those inside them, but those for which `without` holds; expressions hold none."""
    for each in body:
        if without is not None and without(each):
            continue
        yield each
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inner := getattr(each, field, None), list):
                yield from statements(inner, without=without)


def functions(root=ROOT):
    """(path, name, lines) of each function and method."""
    for each in modules(root).values():
        yield from ((each.path, *measured) for measured in each.functions)


def crowded(root=ROOT):
    """Folders that hold too many files, with how many."""
    files = [path for room in FOLDERS for path in (root / room).rglob("*") if path.is_file()]
    held = Counter(p.parent.relative_to(root).as_posix() for p in files if p.suffix not in {".pyc", ".pyi"})
    return {f: count for f, count in held.items() if count > MOST_FILES and not f.endswith("/migrations")}


def for_types(statement):
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)


def imports(body):
    """The full names that are imported when it runs, late imports too; those only for types are left out."""
    for each in statements(body, without=for_types):
        if isinstance(each, ast.ImportFrom) and each.module and not each.level:
            yield from (f"{each.module}.{alias.name}" for alias in each.names)
        elif isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)


def imported(name, root=ROOT):
    """The modules of ours among those."""
    known = modules(root)
    for full in known[name].imports:
        module = full if full in known else full.rpartition(".")[0]
        if module in known and module != name:
            yield module


def circles(root=ROOT):
    """The modules that lie on a circle of imports."""
    graph = {name: set(imported(name, root)) for name in modules(root)}
    while leaves := {name for name, below in graph.items() if not below & graph.keys()}:
        for name in leaves:
            del graph[name]
    while roots := graph.keys() - {below for each in graph.values() for below in each}:
        for name in roots:
            del graph[name]
    return sorted(graph)


def test_no_file_is_long():
    assert long_files() == {}


def test_nine_files_of_ten_are_short():
    counts = sorted(lines().values())
    assert counts[int(0.9 * len(counts))] <= P90_LINES


def test_few_functions_are_long():
    every = list(functions())
    long = [each for each in every if each[2] > LONG_FUNCTION]
    assert len(long) <= LONG_SHARE * len(every), long


def test_no_folder_is_a_flat_list():
    assert crowded() == {}


def test_no_module_imports_itself_by_way_of_others():
    assert circles() == []


def test_no_code_is_fenced_off_from_the_formatter():
    fenced = [path for room in (*ROOMS, "tests") for path in (ROOT / room).rglob("*.py") if fences(path.read_text())]
    assert fenced == []


def fences(text):
    return any(fence in text for fence in FENCES)


@pytest.fixture
def house(tmp_path):
    """A small house that breaks each rule once."""
    hall = tmp_path / "portal" / "hall"
    hall.mkdir(parents=True)
    for before, after in pairwise((*map("m{}".format, range(MOST_FILES + 1)), "m0")):
        (hall / f"{before}.py").write_text(f"def late():\n    import portal.hall.{after}\n")
    (tmp_path / "portal" / "long.py").write_text("def long():\n" + "    pass\n" * MOST_LINES)
    (tmp_path / "portal" / "typed.py").write_text("if TYPE_CHECKING:\n    from portal import typed_too\n")
    (tmp_path / "portal" / "typed_too.py").write_text("from portal import typed\n")
    return tmp_path


def test_what_breaks_a_rule_is_found(house):
    assert long_files(house) == {"portal/long.py": MOST_LINES + 1}
    assert [each for each in functions(house) if each[2] > LONG_FUNCTION] == [
        ("portal/long.py", "long", MOST_LINES + 1)
    ]
    assert crowded(house) == {"portal/hall": MOST_FILES + 1}
    assert circles(house) == sorted(f"portal.hall.m{number}" for number in range(MOST_FILES + 1))
    assert fences(f"x = 1  {FENCES[1]}\n")


def test_the_rooms_are_where_they_are_looked_for():
    assert all(Path(ROOT / room).is_dir() for room in FOLDERS)
