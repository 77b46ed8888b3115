"""Uploaded files on a node: fetched once, checked, laid into the part's directory, and kept within a limit."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import sys

import pytest

from tests.smalldisk import small_disk
from tests.workers.specs import spec_make
from workers.parts.contents import Contents, ContentsError, DamagedError, content_path, files_write, is_safe
from workers.portal_client import PortalAwayError
from workers.system.filework import FileWork


class OnePortal:
    """Has contents; `fails` breaks off in the middle of a content."""

    def __init__(self, *contents):
        self.contents = {hashlib.sha256(each).hexdigest(): each for each in contents}
        self.asked, self.fails = [], False

    async def content(self, attempt, sha256):
        self.asked.append(sha256)
        data = self.contents[sha256]
        yield data[: len(data) // 2]
        if self.fails:
            raise PortalAwayError("cut")
        yield data[len(data) // 2 :]


def spec_of(portal, *paths, executable=()):
    rows = [
        {"path": path, "sha256": sha256, "size_bytes": len(data), "executable": path in executable}
        for path, (sha256, data) in zip(paths, portal.contents.items(), strict=True)
    ]
    return spec_make(upload=rows)


@pytest.fixture
def kept(tmp_path):
    def make(portal, *, limit_gib=1.0, root=tmp_path / "contents"):
        return Contents(root, portal=portal, files=FileWork(), limit_gib=limit_gib, spare_mib=0)

    return make


def files_of(root):
    return [path for path in root.rglob("*") if path.is_file()]


def test_laid_with_their_modes_and_fetched_once(tmp_path, kept):
    portal = OnePortal(b"print(1)", b"#!/bin/sh\n")
    spec = spec_of(portal, "lib/train.py", "run.sh", executable=["run.sh"])
    contents = kept(portal)
    for number in range(2):
        asyncio.run(contents.fetch(spec))
        contents.lay(spec, tmp_path / f"job-{number}")
    assert len(portal.asked) == 2
    laid = tmp_path / "job-1"
    assert (laid / "lib/train.py").read_bytes() == b"print(1)"
    modes = [stat.S_IMODE((laid / name).stat().st_mode) & 0o111 for name in ("lib/train.py", "run.sh")]
    assert modes[0] == 0
    assert modes[1] & 0o100
    (laid / "run.sh").write_bytes(b"the job's own copy")
    assert content_path(tmp_path / "contents", list(portal.contents)[1]).read_bytes() == b"#!/bin/sh\n"


def test_a_damaged_content_is_never_laid_and_is_fetched_again(tmp_path, kept):
    portal = OnePortal(b"right")
    spec, contents = spec_of(portal, "a"), kept(portal)
    asyncio.run(contents.fetch(spec))
    content_path(tmp_path / "contents", next(iter(portal.contents))).write_bytes(b"wrong")
    with pytest.raises(DamagedError):
        contents.lay(spec, tmp_path / "job")
    asyncio.run(contents.fetch(spec))
    contents.lay(spec, tmp_path / "again")
    assert (tmp_path / "again/a").read_bytes() == b"right"


def test_of_a_fetch_that_breaks_off_nothing_is_left(tmp_path, kept):
    portal = OnePortal(b"x" * 1000)
    portal.fails = True
    with pytest.raises(PortalAwayError):
        asyncio.run(kept(portal).fetch(spec_of(portal, "a")))
    lying = spec_of(portal, "a")
    portal.fails, lying["upload"][0]["size_bytes"] = False, 10
    with pytest.raises(DamagedError):
        asyncio.run(kept(portal).fetch(lying))
    assert files_of(tmp_path) == []


def test_a_link_in_the_way_is_not_followed(tmp_path, kept):
    portal = OnePortal(b"content")
    spec, contents = spec_of(portal, "a"), kept(portal)
    asyncio.run(contents.fetch(spec))
    (tmp_path / "job").mkdir()
    (tmp_path / "job/a").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="exists"):
        contents.lay(spec, tmp_path / "job")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("path", ["../up", "/etc/x", "a//b", "a/./b", ".", "", "a\0b"])
def test_a_path_that_leads_away_is_not_safe(path):
    assert not is_safe({"path": path, "sha256": "0" * 64})
    assert is_safe({"path": "a/b.py", "sha256": "0" * 64})
    assert not is_safe({"path": "a", "sha256": "../" + "0" * 61})


def test_above_the_limit_the_longest_unused_go_but_none_of_this_job(tmp_path, kept):
    first, second = OnePortal(b"1" * 600), OnePortal(b"2" * 600)
    limit_gib = 1000 / 2**30
    asyncio.run(kept(first, limit_gib=limit_gib).fetch(spec_of(first, "a")))
    os.utime(files_of(tmp_path)[0], (1, 1))
    asyncio.run(kept(second, limit_gib=limit_gib).fetch(spec_of(second, "a")))
    assert [path.read_bytes()[:1] for path in files_of(tmp_path)] == [b"2"]
    third = OnePortal(b"3" * 2000)
    asyncio.run(kept(third, limit_gib=limit_gib).fetch(spec_of(third, "a")))
    assert [path.read_bytes()[:1] for path in files_of(tmp_path)] == [b"3"]


def test_files_that_do_not_fit_are_told_before_they_are_fetched(kept):
    with small_disk(8) as disk:
        portal = OnePortal(b"x" * 5 * 2**20)
        with pytest.raises(ContentsError, match=r"its files need 10\.0 MiB, and the node's disk has [78]\.\d MiB"):
            asyncio.run(kept(portal, root=disk.path / "contents").fetch(spec_of(portal, "a")))
        assert portal.asked == []
        assert files_of(disk.path) == []


def test_files_in_deep_folders_are_written_without_a_look_at_each_folder(tmp_path):
    looks = []
    sys.setprofile(lambda frame, event, arg: looks.append(arg) if getattr(arg, "__name__", "") == "lstat" else None)
    try:
        files_write(tmp_path, {"/".join("a" * 505) + f"/{number}": "eA==" for number in range(20)})
    finally:
        sys.setprofile(None)
    assert len(looks) < 505
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 20
