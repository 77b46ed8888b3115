"""Errors of calls to the portal. Each text is a sentence for the person at the terminal."""

from __future__ import annotations


class ClientError(Exception):
    """The request cannot be done as it was asked."""

    exit_code = 2


class AwayError(ClientError):
    """No answer came, so it is not known whether the portal did what was asked."""

    exit_code = 1


class RefusedError(ClientError):
    """The portal refused, and changed nothing. `code` is for programs; `field` names what is wrong (None: the whole)."""

    def __init__(
        self, detail: str, *, status: int, code: str = "", field: str | None = None, retry_after_s: float | None = None
    ) -> None:
        wait = f" (in {retry_after_s:g} s)" if retry_after_s is not None else ""
        super().__init__((f"{field}: " if field else "") + detail + wait)
        self.status, self.code, self.field, self.detail = status, code, field, detail
        self.retry_after_s = retry_after_s
