"""A job's output: through pipes into files of a limited size, read again only where they are what was written."""

from __future__ import annotations

import errno
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.controls.joblog import JobLog, LogPipe, log_identities, log_read
from workers.system.files import BrokenFileError


@given(chunks=st.lists(st.binary(max_size=5000), max_size=8), limit=st.integers(0, 12_000))
@settings(max_examples=60, deadline=None)
def test_the_first_bytes_up_to_the_limit_are_kept(tmp_path_factory, chunks, limit):
    log = JobLog.under(tmp_path_factory.mktemp("log"), limit)
    writers = [stream.open() for stream in log.streams]
    for chunk in chunks:
        os.write(writers[0], chunk)
        log.pump()
    log.finish()
    assert log.streams[0].path.read_bytes() == b"".join(chunks)[:limit]
    assert log.streams[1].path.read_bytes() == b""
    for writer in writers:
        os.close(writer)


def test_an_end_that_somebody_else_holds_is_not_waited_for(tmp_path):
    log = JobLog.under(tmp_path, 1000)
    writers = [stream.open() for stream in log.streams]
    os.write(writers[0], b"last words")
    ending = threading.Thread(target=log.finish, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive(), "it would wait for ever"
    assert (tmp_path / "stdout").read_bytes() == b"last words"
    with pytest.raises(BrokenPipeError):
        os.write(writers[0], b"x")


def test_a_full_disk_holds_the_job_and_loses_nothing(tmp_path, monkeypatch):
    pipe = LogPipe(tmp_path / "stdout", 10**6)
    writer = pipe.open()
    os.write(writer, b"before ")
    assert pipe.pump()
    real, full = os.write, [True]

    def write(descriptor, data):
        if descriptor == pipe._file and full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    os.write(writer, b"while ")
    assert not pipe.pump()
    assert pipe.is_blocked()
    os.write(writer, b"after")
    full[0] = False
    while pipe.pump():
        pass
    assert pipe.path.read_bytes() == b"before while after"


def test_the_file_is_not_one_that_was_there(tmp_path):
    (tmp_path / "elsewhere").write_text("secret")
    (tmp_path / "stdout").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        LogPipe(tmp_path / "stdout", 10).open()


def test_another_file_in_its_place_is_not_read(tmp_path):
    pipe = LogPipe(tmp_path / "stdout", 100)
    os.write(pipe.open(), b"hello")
    pipe.pump()
    assert log_read(pipe.path, 1, pipe.identity) == (b"ello", False)
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    for put in (
        lambda: os.link(secret, pipe.path),
        lambda: pipe.path.symlink_to(secret),
        lambda: os.mkfifo(pipe.path),
        pipe.path.mkdir,
    ):
        pipe.path.unlink()
        put()
        with pytest.raises(BrokenFileError):
            log_read(pipe.path, 0, pipe.identity)
    pipe.path.rmdir()
    assert log_read(pipe.path, 0, pipe.identity) == (b"", False)


def test_a_log_of_before_a_reboot_is_known_by_its_inode_alone(tmp_path):
    """A disk may have another device number after it."""
    path = tmp_path / "stdout"
    path.write_bytes(b"hello")
    about = path.stat()
    noted = {"boot_id": "an earlier one", "logs": {"stdout": [about.st_dev + 1, about.st_ino]}}
    assert log_read(path, 0, log_identities(noted, "this one")["stdout"]) == (b"hello", False)
    with pytest.raises(BrokenFileError):
        log_read(path, 0, log_identities(noted, "an earlier one")["stdout"])
    noted["logs"]["stdout"][1] += 1
    with pytest.raises(BrokenFileError):
        log_read(path, 0, log_identities(noted, "this one")["stdout"])
    for tampered in ({"stdout": "x"}, {"stdout": [1]}, ["stdout"], "x"):
        with pytest.raises(BrokenFileError):
            log_read(path, 0, log_identities({"logs": tampered}, "this one")["stdout"])
    assert log_identities(None, "this one") == log_identities({"boot_id": "x"}, "this one") == {}
