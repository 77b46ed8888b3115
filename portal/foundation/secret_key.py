"""The signing key: read from its file, and never a constant. What serves people refuses to start without a real one.

It also seals secrets that Berth must be able to read again: a copy of the database alone opens none of them, and a backup
holds both. What is only ever compared is kept as a hash instead.
"""

from __future__ import annotations

import base64
import functools
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SHORTEST = 32
"""Characters; `./berth up` writes 86."""
_PLACEHOLDERS = ("django-insecure", "changeme", "change-me", "secret", "no-key")


def key_read(path: Path) -> tuple[str, str | None]:
    """Return the signing key, and a sentence about what is wrong with it (None: nothing).

    Without a file the key is random and this process's own: commands such as `manage.py check` need no more, and
    nothing that was signed with it can be forged.
    """
    try:
        key = path.read_text().strip()
    except OSError as error:
        return secrets.token_urlsafe(64), f"The signing key {path} cannot be read ({error.strerror})."
    if len(key) < SHORTEST or len(set(key)) < SHORTEST // 4 or key.lower().startswith(_PLACEHOLDERS):
        problem = f"The signing key in {path} can be guessed: fewer than {SHORTEST} characters, or a placeholder."
        return secrets.token_urlsafe(64), problem
    return key, None


def key_require() -> None:
    """End this process with a sentence if its signing key is not a real one: portal, worker and beat call this first.

    Two processes with keys of their own would not know each other's signatures; one with a known key signs anybody in.
    """
    from django.conf import settings

    if settings.SECRET_KEY_PROBLEM:
        remedy = "Start with ./berth up, which makes one, or name a file of random characters in BERTH_SECRET_KEY_FILE."
        raise SystemExit(f"{settings.SECRET_KEY_PROBLEM} {remedy}")


MARK = "s1:"
"""Begins each sealed text: which key and which way."""


class SealBroken(ValueError):
    """The text was sealed with another signing key, or changed."""


@functools.lru_cache(maxsize=4)
def _box(secret: str) -> object:
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"berth sealed columns 1").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(key))


def _own() -> object:
    from django.conf import settings

    return _box(settings.SECRET_KEY)


def seal(text: str) -> str:
    return MARK + _own().encrypt(text.encode()).decode()  # type: ignore[attr-defined]


def unseal(sealed: str) -> str:
    """Return the text. Raises SealBroken where the signing key is another than the one that sealed it."""
    from cryptography.fernet import InvalidToken

    if not sealed.startswith(MARK):
        raise SealBroken("this text was never sealed")
    try:
        return _own().decrypt(sealed[len(MARK) :].encode()).decode()  # type: ignore[attr-defined]
    except InvalidToken:
        raise SealBroken("sealed with another signing key") from None
