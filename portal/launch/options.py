"""The options of `up`."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000


@dataclass(frozen=True)
class Options:
    """The flags of `./berth up`; `demo` also holds when the data directory was made with it.

    `engine`: another scheduler that the demo starts beside its own nodes; once given, it stays.
    `demo_minutes`: how long the demo's jobs keep coming; None: until `down`.
    """

    data: Path
    demo: bool = False
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    detach: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    with_node: bool = False
    demo_minutes: float | None = None
    engine: str | None = None
