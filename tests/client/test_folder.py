"""A folder as a job's files: what comes along, what stays behind, and what is too much."""

import base64
import os

import pytest

from berth_client import ClientError
from berth_client.folder import folder_files
from portal.jobs.models import Job


@pytest.fixture
def folder(tmp_path):
    for name in (
        "train.py",
        "lib/a.py",
        "lib/a.pyc",
        "data/big.bin",
        "out/log.txt",
        "lib/out/x.txt",
        ".git/config",
        ".venv/x",
    ):
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "secret").write_text("not mine to send")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "own" / "links").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "own" / "pipe")
    return tmp_path / "own"


def test_all_but_links_and_what_is_ignored(folder):
    assert set(folder_files(folder)) == {
        "train.py",
        "lib/a.py",
        "lib/a.pyc",
        "data/big.bin",
        "out/log.txt",
        "lib/out/x.txt",
    }
    (folder / ".berthignore").write_text("# ours\n*.pyc\n/out/\ndata/*.bin\n\ntrain.py/\n")
    assert set(folder_files(folder)) == {"train.py", "lib/a.py", "lib/out/x.txt"}
    (folder / ".berthignore").write_text("lib/*.txt\nout/\n")
    assert "lib/out/x.txt" not in folder_files(folder)
    (folder / ".berthignore").write_text("lib/*.txt\n")
    assert "lib/out/x.txt" in folder_files(folder), "a * ends at a slash"


@pytest.mark.django_db
def test_it_goes_with_the_job_and_a_file_named_itself_comes_first(folder, cli):
    (folder / "data/big.bin").write_bytes(b"\xff\0")
    cli("submit", "--folder", folder, "--file", f"{folder}/lib/a.py:train.py", "--", "python3", "train.py")
    files = {name: base64.b64decode(data) for name, data in Job.objects.get().payload.files.items()}
    assert (files["train.py"], files["data/big.bin"], files["lib/out/x.txt"]) == (
        b"lib/a.py",
        b"\xff\0",
        b"lib/out/x.txt",
    )


def test_what_is_too_much_is_told_before_it_is_read(folder):
    with (folder / "data/big.bin").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(
        ClientError, match=r"holds 1048576\.0 MiB.* the largest: data/big\.bin \(1048576\.0 MiB\).*\.berthignore"
    ):
        folder_files(folder)
    (folder / ".berthignore").write_text("*.bin\n")
    for number in range(1000):
        (folder / f"lib/{number}").touch()
    with pytest.raises(ClientError, match="more than 1000 files"):
        folder_files(folder)


@pytest.mark.parametrize("pattern", ["!keep.py", "lib/**/x"])
def test_a_pattern_that_is_not_known_is_told_with_its_line(folder, pattern):
    (folder / ".berthignore").write_text(f"a\n{pattern}\n")
    with pytest.raises(ClientError, match=r"line 2: .* neither"):
        folder_files(folder)


def test_what_is_no_folder(folder):
    with pytest.raises(ClientError, match="is no folder"):
        folder_files(folder / "train.py")
