"""A real repository behind a real server: git's own http-backend, with a password if one is wanted."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_DATE": "1700000000 +0000"}
ALONE |= {
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    **{f"GIT_{w}_{k}": "t@example.org" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")},
}


def git(where: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(where), **ALONE}
    done = subprocess.run(
        ["git", "-C", str(where), *words], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(where: Path, **files: str) -> str:
    """Write files (`__` is a dot) and commit them; return the commit."""
    for name, text in files.items():
        (where / name.replace("__", ".")).write_text(text)
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "a change")
    return git(where, "rev-parse", "HEAD")


def repository(where: Path, **files: str) -> str:
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    return commit(where, **files)


class GitServer:
    """Serves the repositories below `root` at `url`; `password`: NAME:PASSWORD that it asks for. `hangs`: it never answers."""

    def __init__(self, root: Path, password: str = "", *, hangs: bool = False) -> None:
        self.root, self.password, self.asked, self.gone = root, password, [], threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, self.headers.get("Authorization", "")))
                if hangs:
                    server.gone.wait(60)
                    return
                given = "Basic " + base64.b64encode(server.password.encode()).decode()
                if server.password and self.headers.get("Authorization") != given:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                server.backend(self)

            do_POST = do_GET  # noqa: N815 - as above

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def backend(self, handler: BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": handler.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        handler.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def close(self) -> None:
        self.gone.set()
        self.server.shutdown()
        self.server.server_close()
