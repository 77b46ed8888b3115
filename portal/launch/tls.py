"""TLS for other machines: an authority and a certificate of our own in DIR/tls, or the operator's files.

The join line gives nodes the SHA-256 of the authority's certificate, so nobody on the way can replace it.
"""

import hashlib
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, write_private

AUTHORITY_LIFE = timedelta(days=3650)
CERTIFICATE_LIFE = timedelta(days=397)
RENEW_BEFORE = timedelta(days=60)


@dataclass(frozen=True)
class Tls:
    """PEM files for uvicorn. `authority` and its SHA-256 (hexadecimal, of DER) are None with the operator's own files."""

    certificate: Path
    key: Path
    name: str
    authority: Path | None = None
    authority_sha256: str | None = None


def names_of_this_machine(host: str) -> list[str]:
    """Return the names by which a browser or node may reach this machine: host name, addresses, localhost."""
    addresses = [
        address.address.partition("%")[0]
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family in {socket.AF_INET, socket.AF_INET6}
    ]
    own = [] if host in {"0.0.0.0", "::", "[::]"} else [host.strip("[]")]  # noqa: S104 - compared, not bound
    return list(dict.fromkeys([*own, socket.gethostname(), *addresses, "localhost", "127.0.0.1", "::1"]))


def certificate_given(certificate: Path, key: Path) -> Tls:
    """Check the operator's certificate and key: they must belong together and be valid today."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except (ssl.SSLError, ValueError, OSError) as error:
        raise LaunchError(
            f"--tls-cert {certificate} and --tls-key {key} do not work together ({error}).",
            "Give a PEM certificate (with its chain) and its unencrypted PEM key.",
        ) from error
    if leaf.not_valid_after_utc < datetime.now(UTC):
        raise LaunchError(f"--tls-cert {certificate} expired on {leaf.not_valid_after_utc:%Y-%m-%d}.", "Renew it.")
    return Tls(certificate=certificate.resolve(), key=key.resolve(), name=_names_in(leaf)[0])


def certificate_ensure(layout: Layout, host: str) -> Tls:
    """Return our own authority and certificate. Make a new certificate when it expires soon or lacks a name."""
    layout.tls.mkdir(mode=0o700, exist_ok=True)
    authority_path, chain_path = layout.tls / "ca.pem", layout.tls / "cert.pem"
    authority_key_path, key_path = layout.tls / "ca-key.pem", layout.tls / "key.pem"
    if not (authority_path.exists() and authority_key_path.exists()):
        _authority_make(authority_path, authority_key_path)
    names = names_of_this_machine(host)
    authority = x509.load_pem_x509_certificate(authority_path.read_bytes())
    if not _still_good(chain_path, names, authority):
        _certificate_make(names, authority, authority_key_path, chain_path, key_path)
    digest = hashlib.sha256(authority.public_bytes(serialization.Encoding.DER)).hexdigest()
    return Tls(chain_path, key_path, names[0], authority_path, digest)


def _still_good(chain: Path, names: list[str], authority: x509.Certificate) -> bool:
    if not chain.exists():
        return False
    leaf = x509.load_pem_x509_certificates(chain.read_bytes())[0]
    lasts = leaf.not_valid_after_utc - datetime.now(UTC) > RENEW_BEFORE
    return lasts and leaf.issuer == authority.subject and set(names) <= set(_names_in(leaf))


def _names_in(leaf: x509.Certificate) -> list[str]:
    try:
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names: list[str] = []
    else:
        names = [*alternatives.get_values_for_type(x509.DNSName)]
        names += [str(address) for address in alternatives.get_values_for_type(x509.IPAddress)]
    if not names:
        raise LaunchError("The certificate holds no host name (subjectAltName).", "Get one for this machine's name.")
    return names


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _authority_make(path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Berth authority {os.urandom(4).hex()}")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _key_write(key_path, key)
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM).decode())


def _certificate_make(
    names: list[str], authority: x509.Certificate, authority_key: Path, chain: Path, out: Path
) -> None:
    signer = serialization.load_pem_private_key(authority_key.read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + CERTIFICATE_LIFE)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    _key_write(out, key)
    pem = [each.public_bytes(serialization.Encoding.PEM).decode() for each in (certificate, authority)]
    write_private(chain, "".join(pem))


def _key_write(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write_private(path, pem.decode())
