"""Send mail by the operator's mail server (SMTP)."""

from __future__ import annotations

from email.utils import parseaddr
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, get_connection
from django.core.validators import validate_email

from portal.foundation.environment import env
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from portal.work.notifications.models import Message

TIMEOUT_S = 5


def mail_offered() -> bool:
    """Say whether the operator named a mail server."""
    return bool(env("BERTH_SMTP_HOST"))


def mail_address(user: Any) -> str | None:
    """Return the address of a person's mail; None where there is none that could be sent to."""
    try:
        validate_email(user.email)
    except ValidationError:
        return None
    return user.email


def mail_connection() -> Any:
    """Return a connection, not opened yet. Raises BerthError where the settings cannot be used."""
    path, tls = env("BERTH_SMTP_PASSWORD_FILE"), env("BERTH_SMTP_TLS")
    if tls not in {"starttls", "tls", "none"}:
        raise BerthError("invalid", "BERTH_SMTP_TLS must be one of starttls, tls, none.", field="BERTH_SMTP_TLS")
    try:
        password = Path(path).read_text().strip() if path else ""
    except OSError as error:
        detail = f"BERTH_SMTP_PASSWORD_FILE cannot be read: {error.strerror}."
        raise BerthError("invalid", detail, field="BERTH_SMTP_PASSWORD_FILE") from error
    return get_connection(
        "django.core.mail.backends.smtp.EmailBackend",
        host=env("BERTH_SMTP_HOST"),
        port=env("BERTH_SMTP_PORT"),
        username=env("BERTH_SMTP_USER"),
        password=password,
        use_tls=tls == "starttls",
        use_ssl=tls == "tls",
        timeout=TIMEOUT_S,
    )


def mail_send(connection: Any, *, message: Message, to: str, subject: str, text: str) -> None:
    """Send one mail. Raises OSError or smtplib's errors. Its Message-ID is the message's, so that a second one is recognised."""
    sender = env("BERTH_MAIL_FROM")
    host = urlsplit(settings.BASE_URL).hostname or parseaddr(sender)[1].rpartition("@")[2] or "berth"
    headers = {
        "Message-ID": f"<{message.pk}@{host}>",
        "Auto-Submitted": "auto-generated",
        "Berth-Delivery": str(message.pk),
    }
    EmailMessage(subject, text, sender, [to], headers=headers, connection=connection).send()
