"""Mounts for a test: a small file system of its own (tmpfs), which can be filled; a folder that is read-only for a while."""

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from portal.foundation.layout import SOURCE

INSIDE = "BERTH_TEST_IN_NAMESPACE"
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
    """Make a SmallDisk of this many MiB. Skips loudly where none can be mounted."""
    with _directory() as directory:
        path = directory / "disk"
        path.mkdir()
        try:
            with _mounted(path, mib):
                yield SmallDisk(path)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{NOT_HERE}: {error.stderr.decode(errors='replace').strip()}")


@contextlib.contextmanager
def read_only(path):
    """Let a file or folder be read-only when it is opened now. Open files stay as they are, as after an error of a disk."""
    mount, umount = (shutil.which(each) or f"/bin/{each}" for each in ("mount", "umount"))

    def run(*argv):
        subprocess.run([str(each) for each in argv], check=True, capture_output=True)

    with _directory() as directory:
        side = directory / "side"  # made read-only there: at the path somebody may open it for writing before it is
        side.mkdir() if Path(path).is_dir() else side.touch()
        try:
            run(mount, "--bind", path, side)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{NOT_HERE}: {error.stderr.decode(errors='replace').strip()}")
        try:
            run(mount, "-o", "remount,bind,ro", side)
            run(mount, "--bind", side, path)
        finally:
            run(umount, "--lazy", side)
    try:
        yield
    finally:
        run(umount, "--lazy", path)


def in_namespace(file):
    """Run a file's tests in a user and mount namespace, where an ordinary account may mount too. Skips loudly without."""
    unshare = shutil.which("unshare")
    possible = unshare and subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode == 0
    if not possible:
        pytest.skip(NOT_HERE)
    argv = [unshare, "-rm", sys.executable, "-m", "pytest", "-q", "-rs", file]
    assert subprocess.run(argv, cwd=SOURCE, env=os.environ | {INSIDE: "1"}, check=False).returncode == 0


HERE = may_mount()
needs_mounts = pytest.mark.skipif(not HERE, reason="runs in a namespace")
elsewhere = pytest.mark.skipif(HERE or INSIDE in os.environ, reason="a disk can be mounted here")
