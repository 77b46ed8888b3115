"""Log lines for people and for grep: `time level event key=value ...` on stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_logger = logging.getLogger("workers")


class _Line(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"


def log_setup(*, node: str) -> None:
    """Send every line of this process to stderr, marked with the node's name."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(f"%(asctime)s %(levelname)s node={node} %(message)s"))
    _logger.handlers[:] = [handler]
    _logger.setLevel(logging.INFO)
    _logger.propagate = False


def _pair(key: str, value: Any) -> str:
    text = str(value)
    return f"{key}={json.dumps(text) if not text or any(c in text for c in chr(32) + chr(34) + chr(10)) else text}"


def info(event: str, **fields: Any) -> None:
    _logger.info("%s", " ".join([event, *(_pair(k, v) for k, v in fields.items())]))


def warning(event: str, **fields: Any) -> None:
    _logger.warning("%s", " ".join([event, *(_pair(k, v) for k, v in fields.items())]))


def error(event: str, **fields: Any) -> None:
    _logger.error("%s", " ".join([event, *(_pair(k, v) for k, v in fields.items())]))
