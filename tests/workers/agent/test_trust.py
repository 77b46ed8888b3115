"""The pinned certificate authority, with a real TLS server whose certificates openssl makes."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from workers.agent.enrol import TrustError, trust_for


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """ca.pem, and chain.pem + key.pem of a server at 127.0.0.1 that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("SKIPPED LOUDLY: no openssl here, so the pinned authority was not tried against a real server")
    directory = tmp_path_factory.mktemp("tls")
    elliptic = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority = ("-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Berth test CA")
    openssl("req", "-x509", *elliptic, *authority, "-addext", "keyUsage=critical,keyCertSign", cwd=directory)
    openssl("req", *elliptic, "-keyout", "key.pem", "-out", "leaf.csr", "-subj", "/CN=portal", cwd=directory)
    (directory / "leaf.ext").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "leaf.ext")
    openssl("x509", "-req", "-in", "leaf.csr", "-out", "leaf.pem", *signing, cwd=directory)
    (directory / "chain.pem").write_text((directory / "leaf.pem").read_text() + (directory / "ca.pem").read_text())
    return directory


class Ok(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_) -> None:
        return


@pytest.fixture
def server(certificates):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ok)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "chain.pem", certificates / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pin_of(certificates):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert((certificates / "ca.pem").read_text())).hexdigest()


def test_the_pinned_authority_is_fetched_kept_and_trusted(certificates, server, tmp_path):
    pin = pin_of(certificates)
    written = ":".join(pin[i : i + 2] for i in range(0, 64, 2)).upper()  # as openssl prints it
    verify = trust_for(server, ca_sha256=written, insecure=False, directory=tmp_path)
    assert httpx2.get(server, verify=verify).status_code == 204
    assert pin_of(tmp_path) == pin
    # Kept: no connection is made the next time.
    assert trust_for("https://127.0.0.1:1", ca_sha256=pin, insecure=False, directory=tmp_path)


def test_another_authority_is_refused_and_nothing_kept(server, tmp_path):
    with pytest.raises(TrustError, match="shows no certificate with SHA-256 ababab"):
        trust_for(server, ca_sha256="ab" * 32, insecure=False, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_pin_an_unknown_authority_is_not_trusted(server, tmp_path):
    verify = trust_for(server, ca_sha256=None, insecure=False, directory=tmp_path)
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(server, verify=verify)
    insecure = trust_for(server, ca_sha256=None, insecure=True, directory=tmp_path)
    assert httpx2.get(server, verify=insecure).status_code == 204


def test_the_pin_does_not_excuse_another_host(certificates, server, tmp_path):
    verify = trust_for(server, ca_sha256=pin_of(certificates), insecure=False, directory=tmp_path)
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(server.replace("127.0.0.1", "localhost"), verify=verify)


def test_over_plain_http_no_authority_is_read_and_none_trusted(server, tmp_path):
    verify = trust_for(server.replace("https", "http"), ca_sha256=None, insecure=False, directory=tmp_path)
    assert isinstance(verify, ssl.SSLContext), "else each client reads the system's authorities, for 20 ms"
    assert verify.cert_store_stats()["x509"] == 0
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(server, verify=verify)
