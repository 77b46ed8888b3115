"""One portal over REST: `BERTH_URL` and `BERTH_TOKEN` say which and who; a refusal becomes one sentence."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIMEOUT_S = 60.0
"""A trace of the largest size is read line by line before it is answered."""
PAGE_SIZE = 500


class ClientError(Exception):
    """The request cannot be done. The text is a sentence for the person at the terminal."""

    exit_code = 2


class AwayError(ClientError):
    """No answer came, so it is not known whether the portal did what was asked."""

    exit_code = 1


@dataclass(frozen=True)
class Portal:
    """Every call raises ClientError: the portal's own `field: detail` where it refuses, AwayError where none answers."""

    url: str
    token: str

    @classmethod
    def from_environment(cls) -> Portal:
        found = {name: os.environ.get(name, "").strip() for name in ("BERTH_URL", "BERTH_TOKEN")}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise ClientError(
                f"set {' and '.join(missing)}: the portal's address, and a token made there under your name "
                "(/account/tokens/)."
            )
        url = found["BERTH_URL"].rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise ClientError(f"BERTH_URL is {url!r}; it begins with http:// or https://.")
        return cls(url, found["BERTH_TOKEN"])

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of the answer. `body` is sent as JSON, `content` as it is. A None in the query is left out."""
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}/api/v1{path}" + (f"?{urllib.parse.urlencode(asked)}" if asked else "")
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif content is not None:
            sent["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(url, data=content, method=method, headers=sent)  # noqa: S310 - http(s) only
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - see above
                return answer.read()
        except urllib.error.HTTPError as error:
            raise ClientError(_refusal(error)) from None
        except (OSError, HTTPException) as error:
            raise AwayError(self._away(error)) from None

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Return the JSON of the answer."""
        answer = self.call(method, path, **more)
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            raise ClientError(f"{self.url} answers, but not as a Berth does; is BERTH_URL right?") from None

    def pages(self, path: str, *, query: Mapping[str, Any], most: int) -> Iterator[dict[str, Any]]:
        """Yield at most `most` rows of a list, page by page."""
        page = 1
        while True:
            size = min(most, PAGE_SIZE)
            answer = self.ask("GET", path, query={**query, "page": page, "page_size": size})
            yield from answer["results"][: most - (page - 1) * size]
            if answer["next"] is None or page * size >= most:
                return
            page += 1

    def _away(self, error: Exception) -> str:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return (
                f"{self.url} shows a certificate that nobody here vouches for. Set SSL_CERT_FILE to its authority "
                "(tls/ in the portal's data directory)."
            )
        return f"{self.url} does not answer: {reason}."


def _refusal(error: urllib.error.HTTPError) -> str:
    """`field: detail` of the error's envelope."""
    try:
        told = json.loads(error.read())["error"]
        field, detail = told["field"], told["detail"]
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return f"the portal answers {error.code} {error.reason}."
    wait = error.headers.get("Retry-After")
    return (f"{field}: " if field else "") + detail + (f" (in {wait} s)" if wait else "")
