"""Requests by Python's own urllib. Loaded at the first request."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn
from urllib.parse import urlsplit

from berth_client.errors import AwayError, ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Urllib would send the token to wherever it is sent."""

    def redirect_request(self, *_: Any) -> None:
        return None


class UrllibTransport:
    """Sends one request at a time; proxies as the environment says. `ca_file`: certificate authorities for the portal."""

    def __init__(self, *, ca_file: str | None = None) -> None:
        self._ca_file = ca_file
        self._openers: dict[str, urllib.request.OpenerDirector] = {}

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        scheme = urlsplit(url).scheme
        if scheme not in self._openers:  # reading the machine's certificates takes longer than a request by http
            handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
            if scheme == "https":
                handlers.append(urllib.request.HTTPSHandler(context=self.tls()))
            self._openers[scheme] = urllib.request.build_opener(*handlers)
        return self._openers[scheme]

    def tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise ClientError(f"The file of certificates {self._ca_file} cannot be read: {error}.") from None

    def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | BinaryIO | None, timeout_s: float
    ) -> Answer:
        named = {"User-Agent": "berth-client", **headers}
        request = urllib.request.Request(url, data=body, method=method, headers=named)  # noqa: S310 - http(s) only
        try:
            with self._opener(url).open(request, timeout=timeout_s) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            try:
                return Answer(error.code, dict(error.headers), error.read())
            except (OSError, HTTPException) as cut:
                _away(url, cut)
        except (OSError, HTTPException) as error:
            _away(url, error)
        except ValueError:  # Python's own words would show the token
            raise ClientError(
                "The token, the key or the address holds what no request can carry: letters beyond ASCII, or a line end."
            ) from None


def _away(url: str, error: Exception) -> NoReturn:
    reason = getattr(error, "reason", None) or error
    where = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    if isinstance(reason, ssl.SSLCertVerificationError):
        raise AwayError(
            f"{where} shows a certificate that nobody here vouches for. Name the file of its authority (tls/ in the "
            "portal's data directory): `berth login --ca FILE`, or SSL_CERT_FILE."
        ) from None
    if isinstance(reason, ConnectionRefusedError):
        raise AwayError(
            f"{where} does not answer: nothing listens there. Start a portal by `./berth up`, or name another: BERTH_URL and "
            "BERTH_TOKEN, or `berth login URL`."
        ) from None
    if isinstance(reason, socket.gaierror):
        raise AwayError(
            f"{where} does not answer: no machine of that name is known here. Is the address right?"
        ) from None
    words = (reason.strerror if isinstance(reason, OSError) else None) or str(reason)
    raise AwayError(f"{where} does not answer: {words}.") from None


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


Transport = Callable[..., Answer]
"""Sends one request as `UrllibTransport` does, and returns its answer, of any status. Raises AwayError when none came."""
