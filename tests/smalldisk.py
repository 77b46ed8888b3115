"""A small file system of a test's own (tmpfs), which can be filled and given room again; needs the right to mount."""

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NOT_HERE = "SKIPPED LOUDLY: no small disk can be mounted here (root, or user namespaces, is needed)"
MIB = 2**20


@dataclass
class SmallDisk:
    """`path` is the mount point; `ballast` takes what is free."""

    path: Path

    @property
    def ballast(self):
        return self.path / ".ballast"

    def free_mib(self):
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize / MIB

    def fill(self, *, leave_mib=0):
        """Take all room but so much; returns what is left."""
        with self.ballast.open("ab") as file:
            share = 1.0
            while (left := self.free_mib() - leave_mib) > 0 and share * left * MIB >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, int(share * left * MIB))
                except OSError:  # others write too and were quicker: nothing at all was taken
                    share /= 2
        return self.free_mib()

    def give_back(self):
        self.ballast.unlink(missing_ok=True)


def may_mount():
    with contextlib.ExitStack() as stack:
        try:
            path = Path(stack.enter_context(_directory()))
            stack.enter_context(_mounted(path, 1))
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


@contextlib.contextmanager
def _directory():
    from tests.servers import private_directory

    with private_directory() as directory:
        yield directory


@contextlib.contextmanager
def _mounted(path, mib):
    mount = shutil.which("mount") or "/bin/mount"
    subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "berth-test", str(path)], check=True, capture_output=True
    )
    try:
        yield
    finally:
        subprocess.run([shutil.which("umount") or "/bin/umount", "--lazy", str(path)], check=False, capture_output=True)


@contextlib.contextmanager
def small_disk(mib):
    """A SmallDisk of so many MiB. Skips loudly where none can be mounted."""
    with _directory() as directory:
        path = directory / "disk"
        path.mkdir()
        try:
            with _mounted(path, mib):
                yield SmallDisk(path)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{NOT_HERE}: {error.stderr.decode(errors='replace').strip()}")
