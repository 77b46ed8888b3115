"""`python -m portal.launch.serving`: serves the portal until SIGTERM comes."""

import argparse
import sys
from pathlib import Path

from uvicorn import Config
from uvicorn.config import STARTUP_FAILURE

from portal.launch.serving.protocols import BoundedSocket
from portal.launch.serving.server import PortalServer


def main() -> int:
    """Serve; return 0 after a stop, else uvicorn's code when it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m portal.launch.serving")
    parser.add_argument("application")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--private", type=Path, help="the path of a Unix socket for the supervisor")
    parser.add_argument("--proxies", default="", help="addresses and networks that are trusted, separated by commas")
    parser.add_argument("--certificate", help="a PEM file; with --key")
    parser.add_argument("--key")
    given = parser.parse_args()
    config = Config(
        given.application,
        host=given.host,
        port=given.port,
        ws=BoundedSocket,
        ws_max_size=65_536,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(given.proxies),
        forwarded_allow_ips=given.proxies,
        timeout_graceful_shutdown=5,
        ssl_certfile=given.certificate,
        ssl_keyfile=given.key,
    )
    server = PortalServer(config, private=given.private)
    server.run()
    return 0 if server.started else STARTUP_FAILURE


if __name__ == "__main__":
    sys.exit(main())
