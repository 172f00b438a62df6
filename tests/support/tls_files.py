"""Stores of keys and certificates for tests, made when they are needed: PEM, PKCS12, and JKS by a writer of our own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from struct import pack

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.support.der_writer import element, identifier
from tidelog.security.certificate_authority import Certificate, CertificateAuthority
from tidelog.security.jks import keystream_xor
from tidelog.security.key_material import KeyMaterial
from tidelog.security.pem import key_store_from_pem, trust_store_from_pem

PASSWORD = "correct horse"


def new_authority(name: str = "Test CA") -> CertificateAuthority:
    return CertificateAuthority.create(datetime.now(UTC), name=name)


def material(certificate: Certificate) -> KeyMaterial:
    return key_store_from_pem(certificate.key_pem.decode(), certificate.chain_pem.decode(), None).keys[0]


def trusted(*authorities: CertificateAuthority) -> tuple[bytes, ...]:
    return trust_store_from_pem(b"".join(each.certificate_pem for each in authorities).decode()).trusted


def jks_store(keys: Sequence[KeyMaterial], trusted: Sequence[bytes], password: str, key_password: str = "") -> bytes:
    """What keytool would write."""
    body = pack(">III", 0xFEEDFEED, 2, len(keys) + len(trusted))
    for number, key in enumerate(keys):
        body += pack(">I", 1) + _text(f"key{number}") + pack(">q", 0)
        body += _sized(_protected(key.private_key, key_password or password)) + pack(">I", len(key.chain))
        for certificate in key.chain:
            body += _text("X.509") + _sized(certificate)
    for number, certificate in enumerate(trusted):
        body += pack(">I", 2) + _text(f"trusted{number}") + pack(">q", 0) + _text("X.509") + _sized(certificate)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def pkcs12_store(keys: Sequence[KeyMaterial], trusted: Sequence[bytes], password: str) -> bytes:
    encryption = serialization.BestAvailableEncryption(password.encode())
    named = [
        pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(each), f"trusted{number}".encode())
        for number, each in enumerate(trusted)
    ]
    if not keys:
        return pkcs12.serialize_java_truststore(named, encryption)
    key = keys[0]
    loaded = serialization.load_der_private_key(key.private_key, None)
    certificate, *chain = [x509.load_der_x509_certificate(each) for each in key.chain]
    others: list[pkcs12.PKCS12Certificate | x509.Certificate] = [*chain, *named]
    return pkcs12.serialize_key_and_certificates(b"key", loaded, certificate, others, encryption)  # type: ignore[arg-type]


def encrypted_pem(certificate: Certificate, password: str) -> bytes:
    key = serialization.load_pem_private_key(certificate.key_pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )


def key_settings(kind: str, directory: Path, name: str, certificate: Certificate) -> dict[str, str]:
    """The `ssl.keystore.*` settings of a store that is written here."""
    if kind == "PEM in the configuration":
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": certificate.key_pem.decode(),
            "ssl.keystore.certificate.chain": certificate.chain_pem.decode(),
        }
    path = directory / f"{name}.{kind.lower()}"
    settings = {"ssl.keystore.type": kind, "ssl.keystore.location": str(path)}
    if kind == "PEM":
        path.write_bytes(certificate.key_pem + certificate.chain_pem)
        return settings
    written = jks_store if kind == "JKS" else pkcs12_store
    path.write_bytes(written([material(certificate)], [], PASSWORD))
    return {**settings, "ssl.keystore.password": PASSWORD}


def trust_settings(kind: str, directory: Path, name: str, *authorities: CertificateAuthority) -> dict[str, str]:
    """The `ssl.truststore.*` settings of a store that is written here."""
    pem = b"".join(each.certificate_pem for each in authorities)
    if kind == "PEM in the configuration":
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem.decode()}
    path = directory / f"{name}.{kind.lower()}"
    settings = {"ssl.truststore.type": kind, "ssl.truststore.location": str(path)}
    if kind == "PEM":
        path.write_bytes(pem)
        return settings
    written = jks_store if kind == "JKS" else pkcs12_store
    path.write_bytes(written([], trusted(*authorities), PASSWORD))
    return {**settings, "ssl.truststore.password": PASSWORD}


def _protected(key: bytes, password: str) -> bytes:
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    data = salt + keystream_xor(key, salt, secret) + hashlib.sha1(secret + key).digest()
    algorithm = element(0x30, identifier("1.3.6.1.4.1.42.2.17.1.1"), element(0x05))
    return element(0x30, algorithm, element(0x04, data))


def _text(text: str) -> bytes:
    return pack(">H", len(text)) + text.encode()


def _sized(data: bytes) -> bytes:
    return pack(">I", len(data)) + data
