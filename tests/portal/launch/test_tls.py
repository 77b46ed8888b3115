"""The certificate made here is one a pinned client accepts, is made once, and is renewed when it must be."""

import hashlib
import socket
import ssl
import threading
from datetime import timedelta

import pytest

from portal.foundation.errors import LaunchError
from portal.launch import tls


def handshake(made, name):
    """A TLS handshake over loopback with the client trusting our authority only."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(made.certificate, made.key)
    client_context = ssl.create_default_context(cafile=made.authority)
    ours, theirs = socket.socketpair()

    def serve():
        try:
            server_context.wrap_socket(theirs, server_side=True).close()
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client_context.wrap_socket(ours, server_hostname=name):
            return True
    finally:
        thread.join()


@pytest.mark.parametrize("name", ["gpu.example", "127.0.0.1", "localhost"])
def test_a_client_that_trusts_the_authority_accepts_it(layout, name):
    assert handshake(tls.certificate_ensure(layout, "gpu.example"), name)


def test_it_is_not_valid_for_other_names(layout):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.certificate_ensure(layout, "gpu.example"), "other.example")


def test_the_digest_is_that_of_the_authority_in_the_chain(layout):
    made = tls.certificate_ensure(layout, "gpu.example")
    chain = made.certificate.read_text().split("-----END CERTIFICATE-----\n")
    der = ssl.PEM_cert_to_DER_cert(chain[1] + "-----END CERTIFICATE-----\n")
    assert hashlib.sha256(der).hexdigest() == made.authority_sha256


def test_files_are_their_owners_alone(layout):
    tls.certificate_ensure(layout, "gpu.example")
    assert {path.stat().st_mode & 0o777 for path in layout.tls.iterdir()} == {0o600}


def test_it_is_kept_between_starts_and_made_anew_for_another_host(layout):
    first = tls.certificate_ensure(layout, "gpu.example").certificate.read_bytes()
    assert tls.certificate_ensure(layout, "gpu.example").certificate.read_bytes() == first
    digest = tls.certificate_ensure(layout, "gpu.example").authority_sha256
    other = tls.certificate_ensure(layout, "other.example")
    assert other.certificate.read_bytes() != first
    assert other.authority_sha256 == digest, "nodes keep their pin"


def test_it_is_renewed_before_it_ends(layout, monkeypatch):
    monkeypatch.setattr(tls, "CERTIFICATE_LIFE", tls.RENEW_BEFORE - timedelta(days=1))
    first = tls.certificate_ensure(layout, "gpu.example").certificate.read_bytes()
    assert tls.certificate_ensure(layout, "gpu.example").certificate.read_bytes() != first


def test_the_operators_own_pair(layout):
    made = tls.certificate_ensure(layout, "gpu.example")
    given = tls.certificate_given(made.certificate, made.key)
    assert (given.name, given.authority_sha256) == ("gpu.example", None)


def test_a_pair_that_does_not_fit(layout, tmp_path):
    made = tls.certificate_ensure(layout, "gpu.example")
    with pytest.raises(LaunchError, match="do not work together"):
        tls.certificate_given(made.certificate, layout.tls / "ca-key.pem")
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(LaunchError, match="do not work together"):
        tls.certificate_given(tmp_path / "junk.pem", made.key)


def test_an_expired_pair(layout, monkeypatch):
    monkeypatch.setattr(tls, "CERTIFICATE_LIFE", timedelta(minutes=-1))
    made = tls.certificate_ensure(layout, "gpu.example")
    with pytest.raises(LaunchError, match="expired on"):
        tls.certificate_given(made.certificate, made.key)
