"""The light path says and does what `pathlib`'s does."""

from __future__ import annotations

import os
import pathlib
import shutil
from itertools import product

import pytest

from workers.lean.paths import Path

TEXTS = [
    "",
    ".",
    "/",
    "//",
    "///",
    "a",
    "a/",
    "./a",
    "a//b/./c",
    "/a/../b",
    "//host/x",
    "///x",
    "..",
    "a/.",
    "/a b/ü.txt",
]


def both(ask):
    """Return what either answers, paths as text, or by which error it refuses."""
    answers = []
    for kind in (Path, pathlib.Path):
        try:
            found = ask(kind)
        except Exception as error:  # noqa: BLE001 - it is what is compared
            found = type(error).__name__
        answers.append(found)
    return answers


def told(found):
    return [str(each) for each in found] if isinstance(found, list | tuple) else str(found)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "ask",
    [
        str,
        repr,
        os.fspath,
        lambda path: hash(path) == hash(type(path)(str(path))),
        lambda path: path.name,
        lambda path: path.parts,
        lambda path: path.parent,
        lambda path: list(path.parents),
        lambda path: list(path.parents[:2]),
        lambda path: path.with_name("new"),
        lambda path: path.suffix,  # pathlib's own
    ],
)
def test_a_path_is_the_same(text, ask):
    light, whole = both(lambda kind: told(ask(kind(text))))
    assert light == whole


@pytest.mark.parametrize(("text", "other"), list(product(TEXTS, repeat=2)))
def test_two_paths_are_the_same(text, other):
    for ask in (
        lambda kind: str(kind(text) / other),
        lambda kind: str(kind(text, other)),
        lambda kind: kind(text) == kind(other),
        lambda kind: (
            (pathlib.Path(text).root != pathlib.Path(other).root) or kind(text) < kind(other)
        ),  # Pythons differ there
        lambda kind: kind(text).is_relative_to(kind(other)),
        lambda kind: kind(text).is_relative_to(other),
    ):
        light, whole = both(ask)
        assert light == whole


@pytest.mark.parametrize("name", ["", ".", "a/b", "/a", "ok"])
def test_a_new_name_is_taken_or_refused_alike(name):
    light, whole = both(lambda kind: str(kind("/x/y").with_name(name)))
    assert light == whole


def test_a_light_path_is_no_other_kind():
    assert Path("a") != "a"
    assert Path("a") != pathlib.Path("a")
    assert pathlib.Path("/x") / Path("a") == pathlib.Path("/x/a")
    with pytest.raises(AttributeError):
        getattr(Path("a"), "nothing_of_this_name")  # noqa: B009 - it is asked for
    with pytest.raises(AttributeError):
        Path("a").another = 1


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "file").write_text("first\nsecond ü")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/inside").write_bytes(b"\xff")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path


NAMES = ["file", "full", "empty", "link", "dead", "circle", "none", "none/below", "file/below", "nul\0l"]
ASKED = {
    "exists": lambda path: path.exists(),
    "is_dir": lambda path: path.is_dir(),
    "is_symlink": lambda path: path.is_symlink(),
    "stat": lambda path: path.stat().st_ino,
    "lstat": lambda path: path.lstat().st_ino,
    "read_text": lambda path: path.read_text(),
    "read_text forgiving": lambda path: path.read_text("ascii", errors="replace"),
    "lexists": lambda path: path.stat(follow_symlinks=False).st_ino,
    "read_bytes": lambda path: path.read_bytes(),
    "write_text": lambda path: (path.write_text("ü"), path.read_bytes()),
    "mkdir": lambda path: path.mkdir(mode=0o700),
    "mkdir there": lambda path: path.mkdir(exist_ok=True),
    "mkdir parents": lambda path: path.mkdir(parents=True),
    "rmdir": lambda path: path.rmdir(),
    "unlink": lambda path: path.unlink(),
    "unlink missing": lambda path: path.unlink(missing_ok=True),
    "rename": lambda path: path.rename(path.parent / "new").name,
    "replace": lambda path: path.replace(path.parent / "file").name,
    "chmod": lambda path: path.chmod(0o400),
    "iterdir": lambda path: sorted(each.name for each in path.iterdir()),
    "glob": lambda path: sorted(each.name for each in path.parent.glob("f*")),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_what_is_asked_of_the_disk_ends_alike(tree, tmp_path_factory, name, ask):
    answers = []
    for kind in (Path, pathlib.Path):
        copy = tmp_path_factory.mktemp("copy")
        shutil.copytree(tree, copy, symlinks=True, dirs_exist_ok=True)
        names = {p.name: p.lstat().st_ino for p in copy.iterdir()}
        try:
            found = ask(kind(str(copy / name)))
        except Exception as error:  # noqa: BLE001 - it is what is compared
            found = type(error).__name__
        if isinstance(found, int) and not isinstance(found, bool):
            found = [each for each, number in names.items() if number == found]
        modes = {path.name: path.lstat().st_mode for path in copy.iterdir()}
        for path in copy.iterdir():  # an ordinary account sees nothing below a directory that it may only read
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        answers.append((found, modes, left(copy)))
    assert answers[0] == answers[1]


def left(directory):
    """Return all that is there, with modes."""
    return sorted((str(p.relative_to(directory)), p.lstat().st_mode) for p in directory.rglob("*"))


def test_it_knows_where_it_is_and_where_a_link_leads(tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert str(Path.cwd()) == str(tree)
    assert str(Path("link").resolve()) == str(tree / "file")
