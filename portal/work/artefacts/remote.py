"""Where artefacts lie in place of the portal's disk: a bucket of a server that speaks S3 (decision 0093).

A content comes to the portal's disk first, and `services.moving` brings it here once it is whole. Its name here is the one
that it had there. boto3 is imported only where a bucket is set.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONNECT_S, READ_S = 5, 30
PIECE_BYTES = 64 * 1024
PART_BYTES = 16 * 1024 * 1024
REST_S = 20.0
"""The time after a failure in which nobody waits for the store."""
UNFINISHED = timedelta(days=1)
_GONE = frozenset({"404", "NoSuchKey", "NotFound"})
_rests_until = [0.0]
_forgot_at = [float("-inf")]


class StoreAway(BerthError):
    """The store did not answer, or refused. Its own words are for the operator, in `why`."""

    def __init__(self, why: str) -> None:
        detail = "The store of artefacts does not answer; nothing is lost. Try again in some minutes."
        super().__init__("store_away", detail, status=503)
        self.why = why


@dataclass(frozen=True)
class Place:
    """A bucket and the prefix of the names in it: "" or a text that ends with /."""

    bucket: str
    prefix: str


@dataclass(frozen=True)
class Stored:
    """A content in the store."""

    key: str
    name: str
    changed_at: datetime


def is_set() -> bool:
    return bool(env("BERTH_S3_URL"))


def place() -> Place:
    """Read `s3://BUCKET/PREFIX`. Raises ValueError naming the setting."""
    given = urlsplit(env("BERTH_S3_URL"))
    prefix = given.path.strip("/")
    if given.scheme != "s3" or not given.netloc or given.username or given.query:
        raise ValueError("BERTH_S3_URL must be like s3://bucket or s3://bucket/folder; credentials stand elsewhere.")
    return Place(given.netloc, f"{prefix}/" if prefix else "")


@cache
def _client(process: int) -> Any:
    """Return the process's client, until the store fails; a forked process makes its own."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.session import Session
    except ImportError:
        raise ValueError(
            f'BERTH_S3_URL needs boto3; install it by `{sys.executable} -m pip install "boto3~=1.44"`.'
        ) from None
    own = Session()
    if credentials := env("BERTH_S3_CREDENTIALS_FILE"):
        own.set_config_variable("credentials_file", credentials)
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "path"} if env("BERTH_S3_ENDPOINT") else None,
    )
    return boto3.session.Session(botocore_session=own).client(
        "s3", endpoint_url=env("BERTH_S3_ENDPOINT") or None, region_name=env("BERTH_S3_REGION"), config=config
    )


@contextmanager
def _asked() -> Iterator[Any]:
    """Give the client; its errors become NotFound or StoreAway. Soon after the store was away it is not asked."""
    if time.monotonic() < _rests_until[0]:
        raise StoreAway("it did not answer a moment ago")
    client = _client(os.getpid())
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.parsers import ResponseParserError

    try:
        yield client
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            raise NotFound("artefact") from None
        raise _away(_why(error)) from error
    except FileNotFoundError:  # of ours, not of the store
        raise
    except (BotoCoreError, HTTPClientError, OSError) as error:
        _rests_until[0] = time.monotonic() + REST_S
        raise _away(_why(error)) from error
    except (ResponseParserError, KeyError, ValueError) as error:
        raise _away(f"what it answered is not S3: {_why(error)}") from error


def _away(why: str) -> StoreAway:
    """Forget the client, which keeps credentials and connections; once in `REST_S`, for another takes a quarter of a second."""
    now = time.monotonic()
    if now - _forgot_at[0] >= REST_S:
        _forgot_at[0] = now
        _client.cache_clear()
    return StoreAway(why)


def _why(error: Exception) -> str:
    """Return the fault for an operator, in one line. boto3's messages name no secret."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _name(key: str, name: str) -> str:
    return f"{place().prefix}{key[:2]}/{key}/{name}"


def send(key: str, name: str, path: Path) -> None:
    """Bring a whole content to the store, in parts where it is large, and check that all of it came. Raises StoreAway."""
    from boto3.exceptions import S3UploadFailedError
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=2)
    where, target = place().bucket, _name(key, name)
    with _asked() as client:
        try:
            client.upload_file(str(path), where, target, Config=config, ExtraArgs={"ChecksumAlgorithm": "SHA256"})
        except S3UploadFailedError as error:
            raise _away(_why(error)) from error
        found = client.head_object(Bucket=where, Key=target)["ContentLength"]
    if found != path.stat().st_size:
        raise StoreAway(f"of {target} only {found} bytes came")


def pieces(key: str, name: str, *, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes from `start` to before `stop`. Raises NotFound, StoreAway."""
    if start >= stop:
        return
    bucket = place().bucket
    with _asked() as client:
        found = client.get_object(Bucket=bucket, Key=_name(key, name), Range=f"bytes={start}-{stop - 1}")
        if start and not found.get("ContentRange", "").startswith(f"bytes {start}-"):
            raise StoreAway(f"asked for the bytes from {start} on, it answered with another part")
        with closing(found["Body"]) as body:
            for piece in body.iter_chunks(PIECE_BYTES):
                yield piece[: stop - start]
                start += len(piece)
                if start >= stop:  # nobody asked for the rest that it sends
                    return
    if start < stop:
        raise OSError(f"a stored artefact is shorter than its row says, by {stop - start} bytes")


def drop(names: list[tuple[str, str]]) -> None:
    """Remove contents (job's key, name), a thousand at once; those that are gone do no harm. Raises StoreAway."""
    bucket = place().bucket
    with _asked() as client:
        for first in range(0, len(names), 1000):
            objects = [{"Key": _name(key, name)} for key, name in names[first : first + 1000]]
            client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})


def listing(key: str = "") -> Iterator[list[Stored]]:
    """Yield the store's objects, of one job or of all, in pages of at most 1000. Raises StoreAway."""
    where = place()
    with _asked() as client:
        below = f"{where.prefix}{key[:2]}/{key}/" if key else where.prefix
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=where.bucket, Prefix=below):
            found = []
            for each in page.get("Contents", ()):
                parts = each["Key"].removeprefix(where.prefix).split("/")
                if len(parts) == 3:  # foreign objects stay
                    found.append(Stored(parts[1], parts[2], each["LastModified"]))
            yield found


def unfinished_drop() -> int:
    """Give up uploads in parts that a kill left a day ago or longer; return how many. Raises StoreAway."""
    where, dropped = place(), 0
    late = datetime.now(UTC) - UNFINISHED
    with _asked() as client:
        pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=where.bucket, Prefix=where.prefix)
        for page in pages:
            for each in page.get("Uploads", ()):
                if each["Initiated"] < late:
                    client.abort_multipart_upload(Bucket=where.bucket, Key=each["Key"], UploadId=each["UploadId"])
                    dropped += 1
    return dropped


def try_out() -> None:
    """Ask for the bucket. Raises StoreAway, NotFound."""
    bucket = place().bucket
    with _asked() as client:
        client.head_bucket(Bucket=bucket)
