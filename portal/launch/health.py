"""Asks the portal's `/healthz` over loopback. `up` has finished when the answer is good."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.launch.options import Options
from portal.launch.tls import Tls

AWAY = (
    "a portal that ended is started again within seconds, and logs/portal.log in the data directory says why it ended"
)


@dataclass(frozen=True)
class Health:
    """`status`: the HTTP status, None without an answer. `facts`: the answer's JSON."""

    status: int | None
    facts: dict[str, Any]
    problem: str = ""

    @property
    def good(self) -> bool:
        return self.status == http.HTTPStatus.OK

    @property
    def serves(self) -> bool:
        """Whether the start succeeded: all is good, or only the disk is almost full."""
        return self.good or (self.status is not None and self.facts.get("state") == "disk-low")

    @property
    def words(self) -> str:
        """The problems, as text."""
        if self.problem:
            return self.problem
        named = self.facts.get("problems") or self.facts
        return json.dumps(named)


def _connection(host: str, port: int, *, tls: bool, limit_s: float) -> http.client.HTTPConnection:
    if not tls:
        return http.client.HTTPConnection(host, port, timeout=limit_s)
    # The name is not checked: the server is our own process on this machine, and nothing secret is sent.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001
    return http.client.HTTPSConnection(host, port, timeout=limit_s, context=context)


def loopback_of(host: str) -> str:
    """Return the address by which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}.get(host, host.strip("[]"))  # noqa: S104


class _PrivateConnection(http.client.HTTPConnection):
    """HTTP through a Unix socket: no flood of the port keeps its owner out."""

    def __init__(self, path: Path, *, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def health_ask(*, host: str, port: int, tls: bool, limit_s: float = 3.0) -> Health:
    return _ask(_connection(loopback_of(host), port, tls=tls, limit_s=limit_s), "/healthz")


def _ask(connection: http.client.HTTPConnection, path: str) -> Health:
    try:
        connection.request("GET", path, headers={"Host": "localhost"})
        answer = connection.getresponse()
        return Health(answer.status, _json(answer.read()))
    except (OSError, http.client.HTTPException, socket.gaierror) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Health(None, {}, problem=f"the portal does not answer ({why.lower()}); {AWAY}")
    finally:
        connection.close()


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {"answer": body[:200].decode(errors="replace")}
    return value if isinstance(value, dict) else {"answer": value}


def port_answers(options: Options) -> bool:
    try:
        with socket.create_connection((loopback_of(options.host), options.port), timeout=1.0):
            return True
    except OSError:
        return False


def ask_for(options: Options, tls: Tls | None) -> Health:
    return health_ask(host=options.host, port=options.port, tls=tls is not None)


def life_ask(options: Options, tls: Tls | None, private: Path | None, limit_s: float) -> None:
    """Return when the portal gives any answer, on its private socket where it has one. Raises OSError after `limit_s`."""
    if private is None:
        connection = _connection(loopback_of(options.host), options.port, tls=tls is not None, limit_s=limit_s)
    else:
        connection = _PrivateConnection(private, limit_s=limit_s)
    if _ask(connection, "/livez").status is None:
        raise TimeoutError("the portal does not answer")
