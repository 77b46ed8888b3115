"""Which environments are removed: by age, by size in all, for want of room; never one in use."""

from __future__ import annotations

import asyncio
import os
import time

from hypothesis import given
from hypothesis import strategies as st

from workers.environments.offer import Limits
from workers.environments.tidying import DAY_S, Kept, Tidying, kept_find, superfluous, used_mark
from workers.system.filework import FileWork

NOW = 1e9
GIB = 2**30


def made(root, name, *, size=4096, days=0.0):
    (root / name).mkdir(parents=True)
    (root / name / "data").write_bytes(b"x" * size)
    used_mark(root, name)
    os.utime(root / f"{name}.used", (time.time() - days * DAY_S,) * 2)


def tidy(root, limits, *, in_use=frozenset(), room=True):
    work = Tidying(root, limits, files=FileWork(), in_use=lambda: set(in_use))
    asyncio.run(work.tidy(room=room))
    return {f"{path.parent.name}/{path.name}" for path in root.glob("*/*/")}


def test_what_was_unused_for_long_goes_unless_a_job_uses_it(tmp_path):
    for name, days in (("tenant-1/old", 15), ("tenant-1/new", 1), ("tenant-2/old", 15)):
        made(tmp_path, name, days=days)
    assert tidy(tmp_path, Limits(), in_use={"tenant-2/old"}) == {"tenant-1/new", "tenant-2/old"}
    assert not list(tmp_path.glob("trash-*"))
    assert not (tmp_path / "tenant-1/old.used").exists()
    assert tidy(tmp_path, Limits()) == {"tenant-1/new", "tenant-2/old"}  # it was used a moment ago


def test_the_longest_unused_go_above_the_size_and_all_for_want_of_room(tmp_path):
    for days in (1, 2, 3):
        made(tmp_path, f"tenant-1/{days}", size=2 * 2**20, days=days)
    assert tidy(tmp_path, Limits(all_gib=5 / 1024)) == {"tenant-1/1", "tenant-1/2"}
    assert tidy(tmp_path, Limits(), in_use={"tenant-1/2"}, room=False) == {"tenant-1/2"}


def test_a_size_is_measured_once_and_its_date_stays(tmp_path):
    made(tmp_path, "tenant-1/a", size=2**20, days=3)
    (first,) = kept_find(tmp_path, in_use=())
    assert 2**20 <= first.size < 2**21
    (tmp_path / "tenant-1/a/more").write_bytes(b"x" * 2**20)
    assert kept_find(tmp_path, in_use=()) == [first]
    (tmp_path / "tenant-1/a.used").write_text("junk")
    assert kept_find(tmp_path, in_use=())[0].size > first.size


def test_a_first_look_takes_what_has_no_date_as_used_now_and_what_is_no_environment_as_none(tmp_path):
    (tmp_path / "tenant-1/a").mkdir(parents=True)
    (tmp_path / "trash-tenant-1-b/deep").mkdir(parents=True)
    assert tidy(tmp_path, Limits()) == {"tenant-1/a"}
    assert not (tmp_path / "trash-tenant-1-b").exists()
    assert tidy(tmp_path / "none", Limits()) == set()


@given(
    st.lists(st.tuples(st.floats(0, 40), st.integers(0, 30)), max_size=12),
    st.sets(st.integers(0, 11)),
    st.booleans(),
)
def test_never_one_in_use_and_no_more_than_needed(about, used, room):
    kept = sorted(
        (Kept(str(n), NOW - days * DAY_S, size * GIB) for n, (days, size) in enumerate(about)), key=lambda k: k.used_at
    )
    in_use = {str(n) for n in used}
    limits = Limits()
    gone = set(superfluous(kept, limits, now=NOW, in_use=in_use, room=room))
    assert not gone & in_use
    left = [each for each in kept if each.name not in gone]
    idle = [each for each in left if each.name not in in_use]
    if not room:
        assert all(each.size == 0 or not left for each in idle) or not idle or sum(e.size for e in left) <= 0
    elif idle:
        assert sum(each.size for each in left) <= limits.all_gib * GIB
    assert all(NOW - each.used_at <= limits.keep_days * DAY_S for each in idle)
