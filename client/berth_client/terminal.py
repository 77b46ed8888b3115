"""A terminal in a running job: its socket is opened, and how it ended becomes an exit code or an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from berth_client.errors import AwayError, ClientError
from berth_client.rest import Rest

if TYPE_CHECKING:
    from berth_client.duplex import Duplex

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
        needs = "and what stands before the portal must pass WebSockets"
        talk = self.talked_in_job(number, "terminal", rank=rank, lacks="opens no terminal", needs=needs)
        talk.send(json.dumps({"columns": columns, "rows": rows, "command": command, "plain": plain}))
        return talk


def terminal_end(said: Any) -> int:
    """Return the command's exit code. Raises ClientError where it did not run to its end."""
    code, detail = str(said.get("code", "")), str(said.get("detail", ""))
    if code == "ended" and isinstance(said.get("exit_code"), int):
        return int(said["exit_code"])
    if code == "ended":
        raise AwayError(f"{detail} Its exit code is not known.")
    raise (AwayError if code in LOST else ClientError)(detail or code)
