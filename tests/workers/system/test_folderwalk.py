"""What the walk over a hostile job's folder takes, leaves out and never waits for: real files, links, pipes and swaps."""

import os
import time

import pytest

from workers.system import folderwalk, patterns
from workers.system.folderwalk import GoneError, Seen, file_open, file_read, folder_walk


def write(path, data=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def seen(path):
    about = path.stat()
    return Seen(about.st_size, about.st_mtime_ns, about.st_ino)


def walk(root, **more):
    return folder_walk(root, **{"most_files": 100_000} | more)


def read(root, path, told, *, start=0, stop=None, may_grow=False):
    return file_read(root, path, told, start=start, stop=told.size if stop is None else stop, may_grow=may_grow)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "room"
    folder.mkdir()
    return folder


@pytest.fixture
def secret(tmp_path):
    return write(tmp_path / "shadow", b"root:secret")


def test_plain_files_are_found(root):
    write(root / "a.pt", b"abc")
    write(root / "runs/1/b", b"")
    assert {path: each.size for path, each in walk(root).files.items()} == {"a.pt": 3, "runs/1/b": 0}
    assert walk(root / "missing").files == {}


def test_links_are_left_out_and_told(root, secret):
    (root / "file").symlink_to(secret)
    (root / "folder").symlink_to(secret.parent)
    (root / "loop").symlink_to(root)
    (root / "nowhere").symlink_to("/no/such")
    found = walk(root)
    assert found.files == {}
    assert sorted(found.notes) == [(name, "it is a link") for name in ("file", "folder", "loop", "nowhere")]
    for path in ("file", "folder/shadow", "loop/file", "../shadow", "/etc/passwd", "a//b"):
        with pytest.raises(GoneError):
            file_open(root, path)


def test_a_root_that_is_a_link_is_not_entered(tmp_path, secret):
    (tmp_path / "root").symlink_to(tmp_path)
    assert walk(tmp_path / "root").files == {}
    with pytest.raises(GoneError):
        file_open(tmp_path / "root", "shadow")


def test_a_hard_link_to_another_file_is_left_out(root, secret):
    os.link(secret, root / "mine")
    found = walk(root)
    assert found.files == {}
    assert "hard link" in found.notes[0][1]
    with pytest.raises(GoneError):
        file_open(root, "mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_account_is_left_out(root):
    os.chown(write(root / "theirs"), 12345, 12345)
    assert walk(root).notes == [("theirs", "it belongs to another account")]
    with pytest.raises(GoneError):
        file_open(root, "theirs")


def test_pipes_sockets_and_devices_block_nobody(root):
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "later")
    began = time.monotonic()
    assert walk(root).files == {}
    with pytest.raises(GoneError):
        file_open(root, "pipe")
    assert time.monotonic() - began < 5


def test_a_file_that_became_a_pipe_or_a_link_is_gone(root, secret):
    path = write(root / "a", b"abc")
    told = seen(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(GoneError):
        read(root, "a", told)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(GoneError):
        read(root, "a", told)


def test_a_folder_swapped_for_a_link_during_the_walk_leads_nowhere(root, secret, monkeypatch):
    write(root / "d/shadow", b"mine")
    elsewhere = secret.parent / "elsewhere"
    real = folderwalk._problem
    swapped = []

    def swap(about, own):
        if not swapped:
            swapped.append(True)
            (root / "d").rename(elsewhere)
            (root / "d").symlink_to(secret.parent)
        return real(about, own)

    monkeypatch.setattr(folderwalk, "_problem", swap)
    assert list(walk(root).files) == ["d/shadow"]  # of the folder that was opened
    with pytest.raises(GoneError):
        file_open(root, "d/shadow")


def test_a_growing_file_is_read_as_it_was_told(root):
    path = write(root / "log", b"abc")
    told = seen(path)
    with path.open("ab") as file:
        file.write(b"def")
    assert read(root, "log", told, may_grow=True) == b"abc"
    with pytest.raises(GoneError):
        read(root, "log", told)


def test_a_file_that_shrank_or_was_replaced_is_gone(root):
    path = write(root / "log", b"abcdef")
    told = seen(path)
    os.truncate(path, 2)
    for may_grow in (False, True):
        with pytest.raises(GoneError):
            read(root, "log", told, may_grow=may_grow)
    write(root / "new", b"abcdef!").rename(path)
    with pytest.raises(GoneError):
        read(root, "log", told, may_grow=True)


def test_patterns(root):
    for name in ("out/a.pt", "out/b.txt", "out/deep/c.pt", "d.pt", "x/y/metrics.jsonl"):
        write(root / "work" / name)
    assert list(walk(root / "work", patterns=["out/*.pt"]).files) == ["out/a.pt"]
    assert sorted(walk(root / "work", patterns=["**/*.pt", "x/*/metrics.jsonl"]).files) == [
        "d.pt",
        "out/a.pt",
        "out/deep/c.pt",
        "x/y/metrics.jsonl",
    ]
    assert list(walk(root, below="work/out", patterns=["*.txt"]).files) == ["b.txt"]


@pytest.mark.parametrize("pattern", ["**/" * 15 + "no", "/".join(["**", "*"] * 15 + ["no"]), "**/" + "*a" * 400 + "no"])
def test_a_pattern_that_may_match_in_very_many_ways_is_compared_in_few(root, pattern):
    deep = "/".join(["a" * 40] * 15)
    for number in range(20):
        write(root / deep / f"{'a' * 200}{number}")
    began = time.process_time()
    assert walk(root, patterns=[pattern, "**/*9"]).files.keys() == {f"{deep}/{'a' * 200}{each}" for each in (9, 19)}
    assert time.process_time() - began < 1


def test_what_so_many_patterns_ask_of_so_many_names_ends_at_the_limit(root, monkeypatch):
    monkeypatch.setattr(patterns, "MOST_COMPARED", 5_000)
    for number in range(100):
        write(root / f"d/{number}")
    asked = ["**/" + "*/" * 9 + str(number) for number in range(32)]
    found = walk(root, patterns=asked)
    assert found.notes == [("d/", "the job's patterns are too many for so many names; the rest is not looked at")]
    assert 50 < found.entries < 100


def test_a_link_on_the_way_to_the_working_directory_leads_nowhere(root, tmp_path):
    write(tmp_path / "other/data/secret")
    (root / "job").symlink_to(tmp_path / "other")
    assert walk(root, below="job/data", patterns=["*"]).files == {}


def test_names_that_are_no_text_or_too_long_are_told(root):
    write(root / os.fsdecode(b"bad\xff"))
    deep = root
    for _ in range(5):
        deep /= "n" * 250
    write(deep / "file")
    found = walk(root)
    assert found.files == {}
    assert sorted(why for _, why in found.notes) == ["its name is not UTF-8 text", "its path is longer than 1024 bytes"]
    for path, _ in found.notes:
        path.encode()


def test_what_cannot_be_seen_in_a_name_that_is_left_out_is_written_out(root):
    names = ["tab\tname", "two\nlines", "zero\u200bwidth", "right\u202eleft", "no\u00a0break", os.fsdecode(b"\xff")]
    for name in names:
        (root / name).symlink_to("/no/such")
    shown = {"tab\\tname", "two\\nlines", "zero\\u200bwidth", "right\\u202eleft", "no\\xa0break", "\\udcff"}
    assert {path for path, _ in walk(root).notes} == shown


def test_of_a_long_path_beginning_and_end_are_told(root):
    deep = root / ("d" * 150)
    deep.mkdir()
    (deep / ("f" * 100 + ".pt")).symlink_to("/no/such")
    ((path, _),) = walk(root).notes
    assert (len(path), path[:3], path[-4:]) == (200, "ddd", "f.pt")


def test_names_beyond_the_first_are_counted_and_what_concerns_all_is_told_before_them(root, monkeypatch):
    for number in range(30):
        (root / f"link-{number}").symlink_to("/no/such")
    found = walk(root)
    assert (len(found.notes), found.more) == (20, 10)
    monkeypatch.setattr(folderwalk, "MOST_ENTRIES", 25)
    found = walk(root)
    assert found.notes[0] == (".", "there are more than 25 names; the rest is not looked at")
    assert (len(found.notes), found.more) == (20, 6)


def test_a_folder_that_is_another_or_may_not_be_entered_is_told(root, tmp_path):
    write(tmp_path / "scratch/file")
    (root / "out").symlink_to(tmp_path / "scratch")
    write(root / "plain")
    for name in ("out", "plain"):
        ((path, why),) = walk(root / name).notes
        assert (path, why) == (".", "it is a link, or no folder: nothing in it is looked at")
    ((path, why),) = walk(root, below="out", patterns=["*"]).notes
    assert path == "out"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_the_agent_may_not_enter_is_told(root):
    write(root / "closed/file")
    (root / "closed").chmod(0)
    assert walk(root).notes == [("closed", "the agent may not enter this folder")]


def test_blank_names_are_told_in_quotes(root):
    for name in (" ", " a", "b"):
        (root / name).symlink_to("/no/such")
    assert sorted(path for path, _ in walk(root).notes) == ["' '", "' a'", "b"]


def test_a_file_that_is_larger_than_any_disk_is_left_out(root, monkeypatch):
    monkeypatch.setattr(folderwalk, "MOST_BYTES", 10**9)
    os.truncate(write(root / "holes"), 10**9 + 1)
    os.truncate(write(root / "large"), 10**9)
    found = walk(root)
    assert (list(found.files), found.notes) == (["large"], [("holes", "it says that it is larger than any disk")])


def test_a_deep_tree_ends(root):
    deep = root
    for _ in range(60):
        deep /= "d"
    write(deep / "file")
    found = walk(root)
    assert (found.files, found.notes[0][1]) == ({}, "it lies more than 32 folders deep")


def test_more_files_than_are_kept_are_counted_out(root):
    for number in range(30):
        write(root / str(number))
    found = walk(root, most_files=10)
    assert (len(found.files), len(found.notes), found.more) == (10, 20, 0)


def test_100_000_files_end_at_the_limit(root, monkeypatch):
    monkeypatch.setattr(folderwalk, "MOST_ENTRIES", 20_000)
    for number in range(20_100):
        os.close(os.open(root / str(number), os.O_CREAT | os.O_WRONLY))
    before = len(os.listdir("/proc/self/fd"))
    found = walk(root, most_files=100_000)
    assert len(found.files) == 20_000
    assert "more than 20000 names" in found.notes[0][1]
    assert len(os.listdir("/proc/self/fd")) == before
