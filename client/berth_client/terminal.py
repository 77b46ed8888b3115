"""Sockets into a running job: a terminal, whose end becomes an exit code or an error, and a forwarded port."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from berth_client.errors import AwayError, ClientError
from berth_client.rest import Rest, part

if TYPE_CHECKING:
    from berth_client.websocket import Duplex

LOST = frozenset({"away", "timeout", "channel", "idle", "stuck", "failed", "closed", "not_started"})
"""Codes of an end that is nobody's refusal."""


class Terminals(Rest):
    def jobs_terminal(
        self,
        number: int | str,
        *,
        rank: int = 0,
        command: str | None = None,
        plain: bool = False,
        columns: int = 80,
        rows: int = 24,
    ) -> Duplex:
        """Open a shell in a running job, or run `command` in it; `plain`: it reads nothing, and its output comes as it is.

        Binary messages are what is typed and shown. Texts are JSON: send `{"columns", "rows"}` when the size changes; the
        last that comes is `{"state": "ended", "code", "detail", "exit_code"}`, for `terminal_end`.
        """
        talk = self._open(number, "terminal", rank, "opens no terminal")
        talk.send(json.dumps({"columns": columns, "rows": rows, "command": command, "plain": plain}))
        return talk

    def jobs_ssh(self, number: int | str, key: str, *, rank: int = 0, user: str = "berth") -> Duplex:
        """Open the way to a server of ssh in a running job, which lets in `key` under the name `user`.

        Texts are those of `jobs_terminal`. The first line of the binary messages is the server's own public key.
        """
        talk = self._open(number, "terminal", rank, "opens no terminal")
        talk.send(json.dumps({"ssh": key, "user": user}))
        return talk

    def jobs_forward(self, number: int | str, port: int, *, rank: int = 0) -> Duplex:
        """Open the way to a port that a running job listens on; `forwarding.Connections` speaks over it.

        Texts are JSON: `{"state": "open", "node"}` comes first, `{"state": "ended", "code", "detail"}` last.
        """
        talk = self._open(number, "forward", rank, "forwards no port")
        talk.send(json.dumps({"port": port}))
        return talk

    def _open(self, number: int | str, way: str, rank: int, lacks: str) -> Duplex:
        from berth_client.websocket import BrokenError

        try:
            return self.open_socket(f"/ws/jobs/{part(number)}/{way}", query={"rank": rank})
        except BrokenError as error:
            self.ask("GET", f"/jobs/{part(number)}")  # says what is wrong with the token, the job or the portal
            raise AwayError(
                f"{self.url} answers, but {lacks}: {error} The token needs the scope jobs:write, and proxies before the "
                "portal must pass WebSockets."
            ) from None


def terminal_end(said: Any) -> int:
    """Return the command's exit code. Raises ClientError where it did not run to its end."""
    code, detail = str(said.get("code", "")), str(said.get("detail", ""))
    if code == "ended" and isinstance(said.get("exit_code"), int):
        return int(said["exit_code"])
    if code == "ended":
        raise AwayError(f"{detail} Its exit code is not known.")
    raise (AwayError if code in LOST else ClientError)(detail or code)
