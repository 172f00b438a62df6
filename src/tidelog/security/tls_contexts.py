"""`ssl` contexts from settings and stores: one for accepting, one for calling.

A private key reaches OpenSSL through a file without a name in memory (`memfd_create`), never through one on a disk. Where the
system has none, it goes through a temporary file, encrypted with a password that is forgotten at once.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from tidelog.model.config import ConfigError
from tidelog.security.key_material import KeyMaterial
from tidelog.security.pem import certificate_pem, private_key_pem
from tidelog.security.tls_settings import ClientAuth, TlsSettings
from tidelog.security.tls_stores import TlsStores

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings, stores: TlsStores) -> ssl.SSLContext:
    """For a listener. ConfigError where it has nothing to show, or what it has does not fit together."""
    if stores.key is None:
        raise ConfigError("a listener with TLS needs a key store: set ssl.keystore.location, or ssl.keystore.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, settings, stores)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        _trust(context, stores)
    return context


def client_context(settings: TlsSettings, stores: TlsStores) -> ssl.SSLContext:
    """For calling other nodes. It shows the certificate of the key store, if there is one and the other side asks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    _configure(context, settings, stores)
    _trust(context, stores)
    return context


def verify_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Lets the two shake hands in memory, without a check of names. ssl.SSLError says why they cannot."""
    checks_host_name, client.check_hostname = client.check_hostname, False
    try:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            server.wrap_bio(to_server, to_client, server_side=True),
            client.wrap_bio(to_client, to_server, server_side=False),
        ]
        # Four flights at most; each end needs the other's.
        for _ in range(6):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        # The server's verdict on the client's certificate comes after the client is done (TLS 1.3).
        ends[0].do_handshake()
    finally:
        client.check_hostname = checks_host_name


def _configure(context: ssl.SSLContext, settings: TlsSettings, stores: TlsStores) -> None:
    lowest, highest = settings.versions
    context.minimum_version, context.maximum_version = _VERSIONS[lowest], _VERSIONS[highest]
    # Kafka refuses renegotiation too; compression tells secrets by its length.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if settings.ciphers.openssl:
        try:
            context.set_ciphers(settings.ciphers.openssl)
        except ssl.SSLError as error:
            raise ConfigError("ssl.cipher.suites names no cipher suite that OpenSSL has here") from error
    if stores.key is not None:
        try:
            _load_key(context, stores.key)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            raise ConfigError(f"the private key and its certificates cannot be used: {reason}") from error


def _trust(context: ssl.SSLContext, stores: TlsStores) -> None:
    # Java trusts what is in a trust store, whoever has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if stores.trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=b"".join(stores.trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"the certificates of the trust store cannot be used: {error.reason}") from error


def _load_key(context: ssl.SSLContext, key: KeyMaterial) -> None:
    chain = "".join(map(certificate_pem, key.chain)).encode()
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").exists():
        _load_encrypted(context, key, chain)
        return
    descriptor = os.memfd_create("tls-key", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(private_key_pem(key.private_key).encode() + chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _load_encrypted(context: ssl.SSLContext, key: KeyMaterial, chain: bytes) -> None:
    """Where there are no files in memory."""
    # Rare, and a plain node's start must not wait for it.
    import secrets  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    password = secrets.token_urlsafe(24)
    encrypted = serialization.load_der_private_key(key.private_key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "key.pem"
        path.write_bytes(encrypted + chain)
        context.load_cert_chain(path, password=password)
