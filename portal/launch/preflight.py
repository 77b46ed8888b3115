"""Checks before anything starts. Each failure is one sentence with its remedy."""

import errno
import importlib.util
import ipaddress
import os
import shutil
import socket
import sys
from pathlib import Path

from portal.foundation.environment import env
from portal.foundation.environment.variables import VARIABLES
from portal.foundation.errors import LaunchError
from portal.foundation.job_names import domain
from portal.foundation.redis_urls import kombu_url
from portal.work.artefacts import remote

# SQLite's write-ahead log and the logs need room. With less, the first hour of work may already fail.
FREE_DISK_MIB = 300
PYTHON_FIRST, PYTHON_LAST = (3, 11), (3, 14)
DEMO_MINUTES_LONGEST = 100_000
REMEDY = "Correct that variable, or leave it out; docs/settings.md says what each may be."


def is_loopback(host: str) -> bool:
    """Say whether it is `localhost`, 127.0.0.0/8 or ::1. Other names never count as loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    if not PYTHON_FIRST <= version <= PYTHON_LAST:
        raise LaunchError(
            f"This is Python {version[0]}.{version[1]}; Berth runs on 3.11 to 3.14.",
            "Install one of them (for example `apt install python3.11 python3.11-venv`) and run ./berth again.",
        )


def free_mib(directory: Path) -> int:
    return shutil.disk_usage(directory).free // 2**20


def check_variables() -> None:
    """Check that each environment variable may have its value."""
    for variable in VARIABLES:
        try:
            env(variable.name)
        except ValueError as error:
            raise LaunchError(f"{error}.", REMEDY) from None
    _check_addresses()


def _check_addresses() -> None:
    """Check the addresses of database and broker, which need not answer yet. No error repeats one: it may hold a password."""
    import dj_database_url  # it loads a part of Django

    try:
        url = env("DATABASE_URL")
        is_known = not url or dj_database_url.parse(url).get("ENGINE", "").endswith((".sqlite3", ".postgresql"))
    except ValueError:
        is_known = False
    if not is_known:
        raise LaunchError("DATABASE_URL is not an address of a database that Berth knows.", REMEDY)
    try:
        if url := env("REDIS_URL"):
            kombu_url(url)
    except ValueError:
        raise LaunchError("REDIS_URL is not an address of a server that Berth knows.", REMEDY) from None


def check_jobs_names(base_url: str, allowed: list[str]) -> None:
    """Check the wildcard of jobs' names against the portal's own names."""
    try:
        domain(env("BERTH_JOBS_NAMES"), base_url=base_url, allowed=allowed)
    except ValueError as error:
        raise LaunchError(f"BERTH_JOBS_NAMES: {error}.", REMEDY) from None


def check_disk(directory: Path, *, needed_mib: int = FREE_DISK_MIB) -> None:
    free = free_mib(directory)
    if free < needed_mib:
        raise LaunchError(
            f"Only {free} MiB are free on the disk of {directory}; Berth needs {needed_mib} MiB for its first start.",
            "Free some space, or choose another place with --data DIR.",
        )


def check_store() -> None:
    """Check what the bucket for artefacts is called, and that what speaks to it is installed; it need not answer yet."""
    if not remote.is_set():
        return
    try:
        remote.place()
    except ValueError as error:
        raise LaunchError(str(error), "Correct BERTH_S3_URL, or leave it empty to keep artefacts here.") from error
    if importlib.util.find_spec("boto3") is None:
        raise LaunchError(
            "BERTH_S3_URL needs the package boto3, which is not installed.",
            f'Run `{sys.executable} -m pip install "boto3~=1.44"`, or leave BERTH_S3_URL empty to keep artefacts here.',
        )


def check_port(host: str, port: int) -> None:
    """Check that the port can be opened. Port 0 is refused, because each start would get another one."""
    if not 1 <= port <= 65535:
        raise LaunchError(f"--port {port} is not a port number.", "Give a number from 1 to 65535.")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise LaunchError(
            f"--host {host} is not an address of this machine ({error.strerror}).",
            "Give an IP address or a name of this machine, or 0.0.0.0 for all its addresses. Without --host it is 127.0.0.1.",
        ) from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except PermissionError as error:
            raise LaunchError(
                f"This user may not open port {port}.", "Choose a port above 1023 with --port N."
            ) from error
        except OSError as error:
            raise _cannot_bind(host, port, error) from error


def _cannot_bind(host: str, port: int, error: OSError) -> LaunchError:
    if error.errno == errno.EADDRINUSE:
        return LaunchError(
            f"Another program uses port {port} on {host}.",
            f"Choose another port with --port N (for example --port {port + 1}), or stop that program.",
        )
    return LaunchError(
        f"Berth cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}).",
        "Give an address of this machine with --host.",
    )


def check_demo_minutes(minutes: float | None, *, demo: bool) -> None:
    """Check --demo-minutes, which needs --demo."""
    if minutes is None:
        return
    if not demo:
        raise LaunchError("--demo-minutes works only with --demo.", "Add --demo, or leave it out.")
    if not 0 <= minutes <= DEMO_MINUTES_LONGEST:
        raise LaunchError(
            f"--demo-minutes must be from 0 to {DEMO_MINUTES_LONGEST}, not {minutes:g}.",
            "Without it the demo submits jobs until `./berth down`.",
        )


def check_engine(engine: str | None, *, demo: bool) -> None:
    """Check --engine, which needs --demo."""
    if engine and not demo:
        remedy = "Add --demo, or leave it out. A cluster of your own is attached by `./berth bridge slurm`."
        raise LaunchError("--engine works only with --demo.", remedy)


def check_transport(*, host: str, insecure: bool, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Check flags that contradict each other. When other machines can connect, TLS is used unless --insecure is given."""
    if (tls_cert is None) != (tls_key is None):
        raise LaunchError(
            "--tls-cert and --tls-key go together.", "Give both. With neither, Berth makes a certificate itself."
        )
    if insecure and tls_cert is not None:
        raise LaunchError("--insecure contradicts --tls-cert.", "Leave one of them out.")
    if insecure and is_loopback(host):
        raise LaunchError(
            "--insecure has an effect only when other machines can connect.", "Leave it out, or add --host."
        )
    for flag, path in (("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        if path is not None and not os.access(path, os.R_OK):
            raise LaunchError(f"{flag} {path} cannot be read.", "Give a PEM file that this user may read.")
