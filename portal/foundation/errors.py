"""The application's error, and the error of a command. Every door turns the first into its own kind of answer in one place."""

from __future__ import annotations

RETRY_AFTER_S = 2
"""The wait that a program is asked for while something is away or busy (503)."""


class BerthError(Exception):
    """A refused request. It changed nothing.

    `code` is for programs, `field` names what is wrong (None: the whole), `detail` is a sentence with the remedy.
    """

    def __init__(self, code: str, detail: str, *, field: str | None = None, status: int = 400) -> None:
        super().__init__(detail)
        self.code, self.detail, self.field, self.status = code, detail, field, status

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(RETRY_AFTER_S)} if self.status == 503 else {}

    def envelope(self) -> dict[str, dict[str, str | None]]:
        return {"error": {"code": self.code, "field": self.field, "detail": self.detail}}


class NotFound(BerthError):
    """The same answer for a missing object and for another tenant's."""

    def __init__(self, what: str = "object") -> None:
        super().__init__("not_found", f"No such {what}, or you may not see it.", status=404)


class Conflict(BerthError):
    def __init__(self, code: str, detail: str, *, field: str | None = None) -> None:
        super().__init__(code, detail, field=field, status=409)


class Forbidden(BerthError):
    def __init__(self, detail: str, *, code: str = "forbidden", field: str | None = None) -> None:
        super().__init__(code, detail, field=field, status=403)


class LaunchError(Exception):
    """A fault of a command with its remedy; printed as one line, exit code 1, no traceback."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} {remedy}".strip())
