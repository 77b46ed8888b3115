"""Whatever a job left can be removed: deep, closed, with names that are no text; and nothing beside it is touched."""

# ruff: noqa: PTH102, PTH109

from __future__ import annotations

import os
import resource

from workers.system.trees import tree_remove


def test_a_tree_deeper_than_stack_and_descriptors(tmp_path):
    room = tmp_path / "job"
    room.mkdir()
    here, limits = os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        os.chdir(room)
        for _ in range(2000):
            os.mkdir("d")
            os.chdir("d")
        os.mkfifo("pipe")
        os.chdir(here)
        tree_remove(room)
    finally:
        os.chdir(here)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(tmp_path.iterdir()) == []


def test_closed_directories_links_and_names_that_are_no_text(tmp_path):
    room, outside = tmp_path / "job", tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    (room / "a/b/c").mkdir(parents=True)
    (room / "out").symlink_to(outside)
    (room / "a/loop").symlink_to(room)
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b".x"):
        os.mkdir(os.fsencode(room / "a") + b"/" + name)
    for n in range(50):
        (room / f"a/b/{n}").touch()
    (room / "a/b").chmod(0)
    (room / "a").chmod(0)
    room.chmod(0)
    tree_remove(room)
    assert [p.name for p in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").is_dir()


def test_what_is_no_directory_or_not_there(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "nothing"):
        tree_remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
