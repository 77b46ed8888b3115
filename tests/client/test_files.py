"""Files that a job brings along: how they are named."""

from pathlib import Path

import pytest

from berth_client.cli import files
from portal.work.jobs.models import Job

pytestmark = pytest.mark.django_db


def test_two_files_of_one_name_are_refused_with_the_remedy(cli, tmp_path):
    """The second took the place of the first, and nothing was said."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(folder)
    both = ["--file", tmp_path / "a/train.py", "--file", tmp_path / "b/train.py"]
    for verb in ("submit", "plan"):
        told = cli(verb, *both, "--", "true", code=2).err
        assert "train.py is train.py in the job already; write " in told
    assert not Job.objects.exists()
    named = ["--file", tmp_path / "a/train.py", "--file", f"{tmp_path}/b/train.py:other.py"]
    made = cli("submit", *named, *named[:2], "-o", "json", "--", "true").json
    assert [each["name"] for each in made["files"]] == ["train.py", "other.py"]
    only = cli(
        "submit", "--folder", tmp_path / "a", "--file", tmp_path / "b/train.py", "--print", "-o", "json", "--", "x"
    )
    assert only.json["files"] == {"train.py": "b"}, "one that is named itself comes before one of the folder"


@pytest.mark.parametrize(
    ("given", "path", "name"),
    [
        ("C:\\data\\train.py", "C:\\data\\train.py", "train.py"),
        ("c:/data/train.py:src/t.py", "c:/data/train.py", "src/t.py"),
        ("D:\\x y\\a.bin:b.bin", "D:\\x y\\a.bin", "b.bin"),
        ("train.py:t.py", "train.py", "t.py"),
        ("/data/train.py", "/data/train.py", "train.py"),
        ("C:t.py", "C", "t.py"),
    ],
)
def test_the_colon_of_a_drive_is_the_path_s_own(given, path, name):
    assert files._named(given) == (Path(path), name)
