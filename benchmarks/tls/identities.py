"""Keys and certificates that both brokers have, made for one run: one of the curve P-256, and one of RSA with 2,048 bits."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.broker.load_client import PLAINTEXT, Properties
from tidelog.security.certificate_authority import CertificateAuthority

HOST = "127.0.0.1"
# The listeners, by the key that each has.
EC, RSA = "EC", "RSA"
RSA_BITS = 2_048


class Identities:
    """PEM files below a directory, which both brokers read as they are."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def written(cls, directory: Path) -> Identities:
        directory.mkdir(parents=True)
        directory.chmod(0o700)
        made = cls(directory)
        authority = CertificateAuthority.create(datetime.now(UTC))
        certificate = authority.node_certificate([HOST])
        made.key_store(EC).write_bytes(certificate.key_pem + certificate.chain_pem)
        made.authority.write_bytes(authority.certificate_pem)
        made.key_store(RSA).write_bytes(_rsa_pem(datetime.now(UTC)))
        return made

    @property
    def authority(self) -> Path:
        """Whom clients of the EC listener trust."""
        return self._directory / "authority.pem"

    def key_store(self, listener: str) -> Path:
        return self._directory / f"{listener.lower()}.pem"

    def settings(self) -> dict[str, str]:
        """Of a node, of either kind."""
        protocols = f"{PLAINTEXT}:PLAINTEXT,CONTROLLER:PLAINTEXT,{EC}:SSL,{RSA}:SSL"
        settings = {"listener.security.protocol.map": protocols}
        for listener in (EC, RSA):
            prefix = f"listener.name.{listener.lower()}.ssl.keystore"
            settings |= {f"{prefix}.type": "PEM", f"{prefix}.location": str(self.key_store(listener))}
        return settings

    def client(self) -> Properties:
        """Of librdkafka, for the EC listener. It verifies the certificate, as its users have it."""
        return {"security.protocol": "ssl", "ssl.ca.location": str(self.authority)}


def _rsa_pem(now: datetime) -> bytes:
    """Signed by itself: whoever shakes hands with it only wants to know how long that takes."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=RSA_BITS)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem + certificate.public_bytes(serialization.Encoding.PEM)
