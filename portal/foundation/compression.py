"""Answers travel compressed, where that gives nobody a secret away.

Compressing a secret beside text that an attacker chooses tells the secret by the answer's length (BREACH). So only answers
to GET are compressed: what shows a secret once (a new API or join token) answers a POST. Django masks the CSRF token anew
in each page, and its compression adds a few random bytes to each answer. Pages whose text comes from the address are left
alone (`ECHOES`): they say again what a link made somebody's browser ask. Streams (a log that is followed, a CSV, server-sent
events) go out as they come. Static files are compressed when they are collected (`StaticFiles`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.middleware.gzip import GZipMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.http import HttpRequest, HttpResponse

TYPES = ("text/", "application/json", "application/vnd.oai.openapi")
ECHOES = ("/search", "/admin/", "/login")


class Compression(GZipMiddleware):
    """Django's, for the answers that may be compressed."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not _may_be_compressed(request, response):
            return response
        return super().process_response(request, response)


def _may_be_compressed(request: HttpRequest, response: HttpResponse) -> bool:
    return (
        request.method == "GET"
        and response.status_code == 200
        and not response.streaming
        and response.get("Content-Type", "").startswith(TYPES)
        and not request.path.startswith(ECHOES)
    )


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Static files by WhiteNoise, each compressed once: under the name with a hash of its content, by which pages ask for it.

    WhiteNoise compresses a file's copy under the plain name, too, which took a third of all that `collectstatic` needs.
    """

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        yield from super().compress_files(set(paths).intersection(self.hashed_files.values()))
