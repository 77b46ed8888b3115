"""Requests over real sockets: hostile and broken servers, and the shell's exit codes."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from berth_client import AwayError, Berth, ClientError, RefusedError
from berth_client.cli import main
from berth_client.cli.verbs import VERBS
from portal.foundation.layout import SOURCE
from tests.client.test_anywhere import WALK

STRANGE = {
    "null": b"null",
    "empty": b"",
    "list": b"[]",
    "number": b"NaN",
    "object": b"{}",
    "well": b'{"status": "ok", "results": [{}], "next": null, "count": 1, "tenants": [{"name": "x"}]}',
    "rows": b'{"results": [null, 3, []], "next": null, "count": 1}',
    "deep": b"[" * 100_000,
}
"""Answers of other programs than Berth, by the first part of the path."""


class Odd(BaseHTTPRequestHandler):
    """Answers by the path that is asked for."""

    asked: list

    def do_GET(self):
        type(self).asked.append((self.path, self.headers.get("Authorization")))
        name = self.path.rpartition("/")[2]
        if name == "moved":
            self._answer(302, b"", Location=f"http://127.0.0.1:{self.server.server_port}/api/v1/jobs/stolen")
        elif name == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"half": ')
            self.close_connection = True
        elif name == "starting":
            self._answer(503, b'{"error": {"code": "x", "field": null, "detail": "It is starting."}}')
        elif name == "busy":
            self._answer(429, b'{"error": {"code": "x", "field": null, "detail": "Too many."}}', **{"Retry-After": "7"})
        else:
            self._answer(200, STRANGE.get(self.path.split("/")[1], b"<html>"))

    def do_POST(self):
        self.do_GET()

    def do_PATCH(self):
        self.do_GET()

    def _answer(self, status, body, **headers):
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def odd():
    handler = type("Handler", (Odd,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Berth(f"http://127.0.0.1:{server.server_port}", "secret"), handler
        server.shutdown()
        thread.join()


def test_a_token_is_not_sent_where_a_redirection_leads(odd):
    berth, handler = odd
    with pytest.raises(RefusedError, match="use that address"):
        berth.jobs_show("moved")
    assert handler.asked[-1] == ("/api/v1/jobs/moved", "Bearer secret")
    assert not any("stolen" in path for path, _ in handler.asked)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("cut", AwayError, "does not answer"),
        ("starting", AwayError, "It is starting"),
        ("busy", RefusedError, r"Too many\. \(in 7 s\)"),
        ("page", ClientError, "not as a Berth does"),
    ],
)
def test_an_odd_answer_is_one_sentence(odd, name, kind, words):
    with pytest.raises(kind, match=words):
        odd[0].jobs_show(name)


ASKING = [
    [word.format(job=1, waiting=1) for word in words]
    for verb, words in WALK.items()
    if VERBS[verb].asks_portal and verb not in {"shell", "forward"}
]
"""Words of each verb that asks by requests."""


@pytest.mark.parametrize("kind", STRANGE)
def test_another_programs_answer_is_one_sentence(odd, kind, monkeypatch, capsys, tmp_path):
    """Each verb said what of Python was wrong, in a traceback, where JSON came that is not a Berth's."""
    berth, _ = odd
    monkeypatch.setenv("BERTH_URL", f"{berth.url}/{kind}")
    monkeypatch.setenv("BERTH_TOKEN", "secret")
    monkeypatch.chdir(tmp_path)
    for words in [*ASKING, ["usage", "x"], ["nodes", "n"]]:
        code = main(words)
        said = capsys.readouterr().err
        assert code in {0, 1, 2}, words
        assert said.count("\n") <= 2, (words, said)
        if words[0] in {"ps", "show"}:
            assert (code, "as a Berth does" in said) == (2, True), (words, said)


def test_it_begins_without_what_only_a_request_needs():
    """Those modules take longer to load than all of ours."""
    script = (
        "import sys\nfrom berth_client.cli import parser_make\nparser_make()\n"
        "print(sorted({'ssl', 'urllib.request', 'http.client', 'dataclasses', 'inspect', 'yaml', 'socket', 'hashlib', 'uuid'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCE / 'client')!r})\n{script}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_pipe_that_closes_is_no_error():
    command = f"{sys.executable} -m berth_client submit --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE / "client")}
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_file_of_certificates_that_is_none_is_named(tmp_path):
    for name in ("missing.pem", "odd.pem"):
        (tmp_path / "odd.pem").write_text("none")
        with pytest.raises(ClientError, match=f"{name} cannot be read"):
            Berth("https://127.0.0.1:1", "t", ca_file=str(tmp_path / name)).me()
