"""`berth forward`: a port that a running job listens on, on one's own machine."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import job_add, rank_add
from berth_client.errors import AwayError, ClientError
from berth_client.forwarding import Connections

if TYPE_CHECKING:
    import argparse
    import socket

    from berth_client import Berth
    from berth_client.websocket import Duplex

ABOUT = """\
Reach a port that a running job listens on as if it ran here: `berth forward 41 8888`, then http://127.0.0.1:8888/.
A notebook, TensorBoard, anything that speaks TCP. It goes on until Ctrl-C, or until the job's attempt ends.
Only this machine can connect, but each of its users: the job's server should ask for a password or token."""
HERE = "127.0.0.1"
MOST_CONNECTIONS = 32
"""As many as the portal carries; more wait until one is closed."""
MOST_WAITING = 256 * 1024
"""Bytes that wait for the portal; then nothing more is read here."""


def forward_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    job_add(parser, "running")
    parser.add_argument("port", metavar="PORT", type=_port, help="the listening port in the job, 1 to 65535")
    parser.add_argument(
        "--local", metavar="PORT", type=_port, help="the port here; 0: any that is free (else the same as the job's)"
    )
    rank_add(parser)


def forward(asked: Any, berth: Berth) -> int:
    if asked.port == 0:
        raise ClientError("PORT is the listening port in the job, 1 to 65535")
    with _listening(asked.port if asked.local is None else asked.local) as listening:
        talk = berth.jobs_forward(asked.number, asked.port, rank=asked.rank)
        with closing(talk):
            try:
                return Forward(talk, listening, f"port {asked.port} of job {asked.number}").run()
            except KeyboardInterrupt:
                return 0


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 1 << 16:
        raise ValueError
    return port


_port.__name__ = "port"  # argparse names it where it refuses one


def _listening(port: int) -> socket.socket:
    import socket  # here, as below: it takes longer to load than all of ours

    try:
        return socket.create_server((HERE, port))
    except OSError as error:
        raise ClientError(
            f"port {port} here cannot be had ({os.strerror(error.errno or 0)}); name another one: --local 0 takes any"
        ) from None


class Forward:
    """Carries between the portal's socket and the connections that are made here."""

    def __init__(self, talk: Duplex, listening: socket.socket, what: str) -> None:
        from berth_client.websocket import Heart

        self._talk, self._listening, self._what = talk, listening, what
        self._heart = Heart(talk)
        self._connections = Connections(talk, self._say)
        self._is_open = False
        self._end: Any = None
        self._said: set[str] = set()

    def run(self) -> int:
        from berth_client.websocket import BrokenError

        try:
            while self._end is None:
                self._turn()
        except BrokenError as error:
            raise AwayError(f"{error} The job runs on.") from None
        finally:
            self._connections.close()
        return self._ended()

    def _turn(self) -> None:
        """Wait until something can be done, and do it. Raises AwayError when the connection is lost."""
        import select

        talk, listening, connections = self._talk, self._listening, self._connections
        reading: list[Any] = [talk]
        if self._is_open and talk.waiting < MOST_WAITING:
            reading += connections.readable()
            reading += [listening] if len(connections) < MOST_CONNECTIONS else []
        writing: list[Any] = [*connections.writable(), *([talk] if talk.waiting else [])]
        ready, free, _ = select.select(reading, writing, [], 1.0)
        if listening in ready:
            connections.accept(listening.accept()[0])
        for each in ready:
            if each is not talk and each is not listening:
                connections.read(each)
        for each in free:
            if each is not talk and each.fileno() >= 0:  # reading it may have ended it
                connections.write(each)
        self._hear()
        if self._end is None:
            talk.flush()

    def _hear(self) -> None:
        for message in self._heart.take():
            if isinstance(message, bytes):
                self._connections.hear(message)
            elif (said := json.loads(message)).get("state") == "ended":
                self._end = said
            elif said.get("state") == "open":
                self._is_open = True
                host, port = self._listening.getsockname()[:2]
                self._say(f"{host}:{port} leads to {self._what} on {said.get('node')}. Ctrl-C ends that.")
        if self._talk.is_over and self._end is None:
            raise AwayError("the portal has closed the connection; the job runs on")

    def _ended(self) -> int:
        from berth_client.terminal import LOST

        code, detail = str(self._end.get("code", "")), str(self._end.get("detail", ""))
        if code == "ended":
            self._say(detail)
            return 0
        raise (AwayError if code in LOST else ClientError)(detail or code)

    def _say(self, text: str) -> None:
        """Say a sentence once: a browser tries again and again."""
        if text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
