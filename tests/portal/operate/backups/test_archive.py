"""A backup's file: whole, or refused with a sentence; however it was changed, nothing is unpacked outside its place."""

import gzip
import io
import json
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.operate.backups.archive import HEADER, MANIFEST, archive_unpack, archive_written, header_read
from portal.operate.backups.errors import BackupError

ABOUT = {"made_at": "2026-01-01T00:00:00+00:00", "berth": "1", "database": "sqlite"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a good backup."""
    directory = tmp_path_factory.mktemp("made")
    (directory / "rows").write_bytes(bytes(range(256)) * 50)
    path = directory / "good"
    with archive_written(path, ABOUT) as writer:
        writer.add("database/rows", directory / "rows")
        writer.add("files/nodes/n1/node.json", directory / "rows")
        writer.add_json(MANIFEST, {"members": writer.members, "database": {}})
    return path.read_bytes()


def unpack(data, tmp_path):
    path, root = tmp_path / "file", tmp_path / "root"
    path.write_bytes(data)
    root.mkdir()
    return archive_unpack(path, root)


def test_what_was_put_in_comes_out_and_is_the_owners_alone(whole, tmp_path):
    found = unpack(whole, tmp_path)
    assert (found.header["format"], found.header["database"]) == ("berth-backup", "sqlite")
    assert found.names("files") == ["files/nodes/n1/node.json"]
    assert found.path("database/rows").read_bytes() == bytes(range(256)) * 50
    assert found.path("database/rows").stat().st_mode & 0o077 == 0


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "backup"
    with pytest.raises(ZeroDivisionError), archive_written(path, ABOUT):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with archive_written(path, ABOUT) as writer:
        assert not path.exists()
        writer.add_json(MANIFEST, {"members": {}})
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError), archive_written(path, ABOUT) as writer:
        writer.add_json(MANIFEST, {})
    assert header_read(path)["format"] == "berth-backup"


@given(share=st.floats(min_value=0, max_value=1, exclude_max=True))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_was_cut_off_anywhere_is_refused(whole, tmp_path_factory, share):
    with pytest.raises(BackupError, match=r"damaged|cut off|no backup"):
        unpack(whole[: int(len(whole) * share)], tmp_path_factory.mktemp("cut"))


@given(at=st.floats(min_value=0, max_value=1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_is_noticed_or_changes_nothing(whole, tmp_path_factory, at, bit):
    data = bytearray(whole)
    data[int(len(data) * at)] ^= 1 << bit
    try:
        found = unpack(bytes(data), tmp_path_factory.mktemp("bit"))
    except BackupError:
        return
    assert found.path("database/rows").read_bytes() == bytes(range(256)) * 50  # the flip hit a byte that says nothing


def archive_of(*members):
    """An archive of (name, bytes or a TarInfo's changes)."""
    file = io.BytesIO()
    with gzip.GzipFile(fileobj=file, mode="wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                for field, value in content.items():
                    setattr(info, field, value)
                tar.addfile(info)
    return file.getvalue()


GOOD = (HEADER, json.dumps({"format": "berth-backup", "version": 1, **ABOUT}).encode())


@pytest.mark.parametrize(
    "member",
    [
        ("../../etc/passwd", b"x"),
        ("/etc/passwd", b"x"),
        ("files/../../x", b"x"),
        ("files/link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("files/link", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),
        ("files/pipe", {"type": tarfile.FIFOTYPE}),
        ("files/dir", {"type": tarfile.DIRTYPE}),
        ("elsewhere/x", b"x"),
        (HEADER, b"{}"),
    ],
)
def test_a_member_that_no_backup_holds_is_refused(tmp_path, member):
    with pytest.raises(BackupError, match="no backup holds"):
        unpack(archive_of(GOOD, member), tmp_path)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no backup of Berth"),
        (b"SQLite format 3\0", "no backup of Berth"),
        (gzip.compress(b"hello"), "damaged or was cut off"),
        (archive_of(("berth-backup.json", b"[]")), "no backup of Berth"),
        (archive_of(("berth-backup.json", b"not json")), "no backup of Berth"),
        (archive_of(("other.json", GOOD[1])), "no backup of Berth"),
        (archive_of((HEADER, GOOD[1].replace(b'"version": 1', b'"version": 2'))), "another version"),
        (archive_of(GOOD), "its end is missing"),
        (archive_of(GOOD, ("database/x", b"x"), (MANIFEST, b'{"members": {}}')), "not what its end says"),
        (archive_of(GOOD, (MANIFEST, b'{"members": {}}'), ("database/x", b"x")), "after its end"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # an archive's bytes have the time in them
)
def test_what_is_no_backup_is_refused_with_a_sentence(tmp_path, data, said):
    with pytest.raises(BackupError, match=said):
        unpack(data, tmp_path)


def test_what_cannot_be_read_is_refused_with_a_sentence(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BackupError):
            header_read(path)
