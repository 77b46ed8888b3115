"""A login node: a real sshd of the account that runs the tests, on loopback."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import stretched
from tests.system.helpers.slurm import free_ports

SSHD = "/usr/sbin/sshd"
CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {at}/host
AuthorizedKeysFile {at}/authorized
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv {environment}
"""


@dataclass
class LoginNode:
    at: Path
    host: str

    def authorize(self, public):
        with (self.at / "authorized").open("a") as file:
            file.write(public.read_text())


@contextlib.contextmanager
def login_node(at, **environment):
    """Start one whose logins have this environment."""
    if not (os.access(SSHD, os.X_OK) and shutil.which("ssh")):
        pytest.skip("SKIPPED LOUDLY: no sshd on this machine (`apt install openssh-server openssh-client`)")
    at.mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at / "host"], check=True)
    (port,) = free_ports(1)
    words = " ".join(f'"{name}={value}"' for name, value in environment.items())
    (at / "sshd_config").write_text(CONFIGURATION.format(at=at, port=port, environment=words))
    with (at / "log").open("w") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", at / "sshd_config"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + stretched(20)
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, (at / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.02)
        yield LoginNode(at, f"ssh://{getpass.getuser()}@127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(20)
