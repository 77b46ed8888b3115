"""A folder as a job's files: which come along, which stay behind, and how many are too many."""

import base64
import os

import pytest
from hypothesis import HealthCheck, given, settings

from berth_client import ClientError
from berth_client.cli.files import folder_paths
from portal.work.jobs.models import Job
from portal.work.uploads.store import pieces
from tests.portal.odd_texts import TEXTS


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
    assert set(folder_paths(folder)) == {
        "train.py",
        "lib/a.py",
        "lib/a.pyc",
        "data/big.bin",
        "out/log.txt",
        "lib/out/x.txt",
    }
    (folder / ".berthignore").write_text("# ours\n*.pyc\n/out/\ndata/*.bin\n\ntrain.py/\n")
    assert set(folder_paths(folder)) == {"train.py", "lib/a.py", "lib/out/x.txt"}
    (folder / ".berthignore").write_text("lib/*.txt\nout/\n")
    assert "lib/out/x.txt" not in folder_paths(folder)
    (folder / ".berthignore").write_text("lib/*.txt\n")
    assert "lib/out/x.txt" in folder_paths(folder), "a * ends at a slash"


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


@pytest.mark.django_db
def test_what_is_too_much_is_told_before_it_is_read(folder, cli):
    with (folder / "data/big.bin").open("wb") as file:
        file.truncate(2**40)
    told = cli("submit", "--folder", folder, "--", "true", code=2).err
    assert "1048576.0 MiB, and a job brings at most 200 MiB; the largest: data/big.bin (1048576.0 MiB)" in told
    (folder / ".berthignore").write_text("*.bin\n")
    (folder / "many").mkdir()
    for number in range(10_000):
        (folder / f"many/{number}").touch()
    with pytest.raises(ClientError, match="more than 10000 files"):
        folder_paths(folder)


@pytest.mark.django_db
def test_a_larger_folder_is_uploaded_once(folder, cli, transport, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    (folder / "data/big.bin").write_bytes(os.urandom(2**21))
    (folder / "train.py").chmod(0o755)
    told = cli("submit", "--folder", folder, "--", "python3", "train.py").err
    assert "sent data/big.bin (1 of 6)" in told
    payload = Job.objects.get().payload
    files = {file.path: file for file in payload.upload.files.select_related("blob")}
    assert set(files) == {"train.py", "lib/a.py", "lib/a.pyc", "data/big.bin", "out/log.txt", "lib/out/x.txt"}
    assert [path for path, file in files.items() if file.executable] == ["train.py"]
    assert b"".join(pieces(files["data/big.bin"].blob.sha256)) == (folder / "data/big.bin").read_bytes()
    transport.asked.clear()
    (folder / "lib/a.py").write_text("changed")
    cli("submit", "--folder", folder, "--", "python3", "train.py")
    assert [method for method, _ in transport.asked] == ["POST", "PUT", "POST", "POST", "GET"]
    assert Job.objects.count() == 2


@pytest.mark.parametrize("pattern", ["!keep.py", "lib/**/x"])
def test_a_pattern_that_is_not_known_is_told_with_its_line(folder, pattern):
    (folder / ".berthignore").write_text(f"a\n{pattern}\n")
    with pytest.raises(ClientError, match=r"line 2: .* neither"):
        folder_paths(folder)


def test_what_is_no_folder(folder):
    with pytest.raises(ClientError, match="is no folder"):
        folder_paths(folder / "train.py")


IGNORED = {
    "a byte order mark": b"\xef\xbb\xbf.env\n*.bin\n",
    "lines of Windows": b".env\r\n*.bin\r\n",
    "lines of an old Mac": b".env\r*.bin\r",
    "no last line end": b"*.bin\n.env",
    "spaces around": b"  .env \t\n\t*.bin\n",
    "from here on": b"./.env\n./*.bin\n",
}


@pytest.mark.parametrize("case", IGNORED)
def test_what_is_ignored_stays_behind_however_the_list_was_saved(tmp_path, case):
    for name in (".env", "a.bin", "train.py"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".berthignore").write_bytes(IGNORED[case])
    assert set(folder_paths(tmp_path)) == {"train.py"}


@pytest.mark.parametrize(
    "content",
    [".env\n".encode(coding) for coding in ("utf-16", "utf-16-le", "utf-32", "utf-16-be")]
    + [f"{sign}.env\n".encode() for sign in "\u200b\u200e\u2060\x1b"]
    + [f"a{sign}.env\n".encode() for sign in "\u2028\x85\v\f\ufeff"]
    + [f".env{sign}\n".encode() for sign in "\xa0\u3000\u2003\uffff\ue000"]
    + [b"\xff\xfe", b"conf\\.env\n", "é.env\n".encode("latin-1")],
)
def test_a_list_that_would_be_read_otherwise_than_it_looks_is_refused(tmp_path, content):
    (tmp_path / ".berthignore").write_bytes(content)
    with pytest.raises(ClientError, match=r"\.berthignore"):
        folder_paths(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_a_list_of_any_characters_is_read_or_refused_in_words(tmp_path, text):
    (tmp_path / "train.py").write_text("x")
    (tmp_path / ".berthignore").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert {"train.py"} >= set(folder_paths(tmp_path))
    except ClientError as error:
        assert ".berthignore" in str(error)


def test_a_name_in_another_spelling_of_the_same_characters_is_ignored(tmp_path):
    (tmp_path / "gehe\u0301im").write_text("x")
    (tmp_path / ".berthignore").write_text("geh\u00e9im\n", encoding="utf-8")
    assert folder_paths(tmp_path) == {}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("././../.env", "outside"),
        ("sub/../.env", "outside"),
        ("sub/./.env", "outside"),
        ("~/.env", "outside"),
        ("C:/own/.env", "outside"),
        (".", "outside"),
        ("/", "names nothing"),
        ("./", "names nothing"),
        (".env # passwords", "line of its own"),
        ('".env"', "as it is"),
        ("'a b.txt'", "as it is"),
        ("{.env,a.bin}", "a line for each"),
        ("[^a]env", "[!"),
        (".env\u00a0", "looks like a space"),
        ("\u3000.env", "looks like a space"),
    ],
)
def test_a_pattern_that_would_keep_nothing_back_is_refused_with_its_remedy(folder, pattern, says):
    (folder / ".berthignore").write_text(f"a\n{pattern}\n", encoding="utf-8")
    with pytest.raises(ClientError) as caught:
        folder_paths(folder)
    assert "line 2" in str(caught.value)
    assert says in str(caught.value)


def test_from_here_on_may_be_said_twice(folder):
    (folder / ".berthignore").write_text("././train.py\n.//lib\ndata//big.bin\n")
    assert set(folder_paths(folder)) == {"out/log.txt"}


def test_a_list_in_a_folder_below_is_not_passed_over(folder):
    (folder / "lib/.berthignore").write_text("a.py\n")
    with pytest.raises(ClientError, match=r"lib/\.berthignore.*is not read"):
        folder_paths(folder)
    (folder / ".berthignore").write_text("lib/\n")
    assert "lib/a.py" not in folder_paths(folder), "a list is not needed inside a folder that stays behind"
