"""Makes certificates for a cluster of one's own: a development cluster with TLS in one command, and tests.

    authority = CertificateAuthority.create(now)
    node = authority.node_certificate(["localhost", "127.0.0.1"])       node.key_pem, node.chain_pem
    client = authority.client_certificate("alice")
    authority.certificate_pem                                           what both trust

Keys are of P-256, which takes a fraction of a millisecond. Nothing is written to a file: that is the caller's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DEFAULT_LIFETIME = timedelta(days=365)

# Clocks differ, and a certificate is used at once.
_BACKDATED = timedelta(minutes=5)


class Certificate(NamedTuple):
    """A private key (PKCS#8) and its certificate with the authority's behind it, both PEM."""

    key_pem: bytes
    chain_pem: bytes

    def __repr__(self) -> str:
        return "Certificate(...)"


class CertificateAuthority:
    """Signs certificates. Its key is nowhere else."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, now: datetime) -> None:
        self._key = key
        self._certificate = certificate
        self._now = now

    @classmethod
    def create(
        cls, now: datetime, *, name: str = "Tidelog development CA", lifetime: timedelta = DEFAULT_LIFETIME
    ) -> CertificateAuthority:
        """A new authority. `now` is an aware time; every certificate begins just before it."""
        # Only who makes certificates is to wait for it.
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key.public_key(), now - _BACKDATED, now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate, now)

    @property
    def certificate_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

        return self._certificate.public_bytes(Encoding.PEM)

    def node_certificate(
        self, hosts: Sequence[str], *, name: str | None = None, lifetime: timedelta = DEFAULT_LIFETIME
    ) -> Certificate:
        """For a node that is reached by these names and addresses. It serves for calling other nodes too."""
        return self._issue(name or hosts[0], hosts, lifetime)

    def client_certificate(self, name: str, *, lifetime: timedelta = DEFAULT_LIFETIME) -> Certificate:
        """For a client, whose principal is `User:CN=<name>` unless rules say otherwise."""
        return self._issue(name, (), lifetime)

    def _issue(self, name: str, hosts: Sequence[str], lifetime: timedelta) -> Certificate:
        from cryptography import x509  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        ends = self._now + lifetime
        # One that has ended already has begun before that.
        begins = min(self._now, ends) - _BACKDATED
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), begins, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(key_pem, certificate.public_bytes(serialization.Encoding.PEM) + self.certificate_pem)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415 - as above

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415 - as above

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
