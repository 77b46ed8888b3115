"""What must hold before anything starts: each failure is one sentence with its remedy."""

import errno
import ipaddress
import os
import shutil
import socket
import sys
from pathlib import Path

from portal.command_errors import LaunchError

# SQLite's WAL, logs and the append-only file need room; below this a first hour of work may already fail.
FREE_DISK_MIB = 300
PYTHON_FIRST, PYTHON_LAST = (3, 11), (3, 13)
DEMO_MINUTES_LONGEST = 100_000


def is_loopback(host: str) -> bool:
    """True for localhost, 127.0.0.0/8 and ::1; a name is never taken for loopback but `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    if not PYTHON_FIRST <= version <= PYTHON_LAST:
        raise LaunchError(
            f"This is Python {version[0]}.{version[1]}; Berth runs on 3.11, 3.12 and 3.13.",
            "Install one of them (for example `apt install python3.11 python3.11-venv`) and run ./berth again.",
        )


def free_mib(directory: Path) -> int:
    return shutil.disk_usage(directory).free // 2**20


def check_disk(directory: Path, *, needed_mib: int = FREE_DISK_MIB) -> None:
    free = free_mib(directory)
    if free < needed_mib:
        raise LaunchError(
            f"Only {free} MiB are free on the disk of {directory}; Berth needs {needed_mib} MiB for its first start.",
            "Free some space, or choose another place with --data DIR.",
        )


def check_port(host: str, port: int) -> None:
    """The port can be bound now. Port 0 is refused: it would be another after each start."""
    if not 1 <= port <= 65535:
        raise LaunchError(f"--port {port} is no port.", "Give a number from 1 to 65535.")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise LaunchError(
            f"--host {host} is no address of this machine ({error.strerror}).",
            "Give an IP address or name of this machine, 0.0.0.0 for all, or leave it out for 127.0.0.1.",
        ) from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except PermissionError as error:
            raise LaunchError(
                f"Port {port} may not be opened by this user.", "Choose one above 1023 with --port N."
            ) from error
        except OSError as error:
            raise _cannot_bind(host, port, error) from error


def _cannot_bind(host: str, port: int, error: OSError) -> LaunchError:
    if error.errno == errno.EADDRINUSE:
        return LaunchError(
            f"Port {port} on {host} is taken by another program.",
            f"Choose another with --port N (for example --port {port + 1}), or stop what listens there.",
        )
    return LaunchError(
        f"Nothing can listen on {host}:{port} ({os.strerror(error.errno or 0)}).",
        "Give an address of this machine with --host.",
    )


def check_demo_minutes(minutes: float | None, *, demo: bool) -> None:
    """How long the demo's jobs come is a matter of a demo."""
    if minutes is None:
        return
    if not demo:
        raise LaunchError("--demo-minutes is for a demo.", "Add --demo, or leave it out.")
    if not 0 <= minutes <= DEMO_MINUTES_LONGEST:
        raise LaunchError(
            f"--demo-minutes must be from 0 to {DEMO_MINUTES_LONGEST}, not {minutes:g}.",
            "Leave it out to have the jobs come until `./berth down`.",
        )


def check_transport(*, host: str, insecure: bool, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Flags that contradict one another. Off loopback there is TLS unless --insecure says otherwise."""
    if (tls_cert is None) != (tls_key is None):
        raise LaunchError("--tls-cert and --tls-key go together.", "Give both, or neither for a certificate made here.")
    if insecure and tls_cert is not None:
        raise LaunchError("--insecure contradicts --tls-cert.", "Leave one of them out.")
    if insecure and is_loopback(host):
        raise LaunchError(
            "--insecure is for plain HTTP off loopback; on loopback it changes nothing.", "Leave it out, or add --host."
        )
    for flag, path in (("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        if path is not None and not os.access(path, os.R_OK):
            raise LaunchError(f"{flag} {path} cannot be read.", "Give a PEM file this user may read.")
