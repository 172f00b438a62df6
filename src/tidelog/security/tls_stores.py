"""The key store and the trust store of a listener, read from where its settings say. Reads files: at start, or in slow work.

Which of JKS and PKCS12 a file is, is told by its first bytes and not by the configured type: so does Java since version 9, whose
`keytool` writes PKCS12 where Kafka's default is JKS.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tidelog.model.config import ConfigError
from tidelog.security import jks
from tidelog.security.der import CertificateFields, DerError
from tidelog.security.key_material import STORE_BYTES_MAX, KeyMaterial, StoreContent, StoreError
from tidelog.security.pem import key_store_from_pem, trust_store_from_pem
from tidelog.security.pkcs12 import store_from_pkcs12
from tidelog.security.tls_settings import PEM, StoreSettings, TlsSettings


class TlsStores(NamedTuple):
    """What a listener shows and trusts. `trusted` is None where the system's authorities are."""

    key: KeyMaterial | None
    trusted: tuple[bytes, ...] | None
    modified_ns: tuple[int | None, int | None]
    """When the two files were written, where there are any."""

    @property
    def fields(self) -> CertificateFields | None:
        """Of the certificate that it shows."""
        return None if self.key is None else CertificateFields.of(self.key.certificate)


def load_stores(settings: TlsSettings) -> TlsStores:
    """ConfigError in one sentence for what cannot be read."""
    modified_ns = modification_times(settings)
    key_store, trust_store = settings.key_store, settings.trust_store
    key = None if key_store is None else _key(key_store)
    trusted = None if trust_store is None else _trusted(trust_store)
    return TlsStores(key, trusted, modified_ns)


def modification_times(settings: TlsSettings) -> tuple[int | None, int | None]:
    """What tells whether `load_stores` would read something else."""
    first, second = (_modified_ns(store) for store in (settings.key_store, settings.trust_store))
    return first, second


def _modified_ns(store: StoreSettings | None) -> int | None:
    if store is None or store.location is None:
        return None
    try:
        return Path(store.location).stat().st_mtime_ns
    except OSError:
        return None


def _key(settings: StoreSettings) -> KeyMaterial:
    try:
        key = _first_key(_content(settings, is_key_store=True))
        CertificateFields.of(key.certificate)
    except (StoreError, DerError) as error:
        raise ConfigError(f"{_named(settings, 'key store', 'ssl.keystore.key')} cannot be used: {error}") from error
    return key


def _trusted(settings: StoreSettings) -> tuple[bytes, ...]:
    try:
        trusted = _trusted_in(_content(settings, is_key_store=False))
        for certificate in trusted:
            CertificateFields.of(certificate)
    except (StoreError, DerError) as error:
        named = _named(settings, "trust store", "ssl.truststore.certificates")
        raise ConfigError(f"{named} cannot be used: {error}") from error
    return trusted


def _first_key(content: StoreContent) -> KeyMaterial:
    if not content.keys:
        raise StoreError("it holds no private key")
    return content.keys[0]


def _trusted_in(content: StoreContent) -> tuple[bytes, ...]:
    # Java trusts the certificate of a key in a trust store too.
    trusted = (*content.trusted, *(key.certificate for key in content.keys))
    if not trusted:
        raise StoreError("it holds no certificate to trust")
    return trusted


def _named(settings: StoreSettings, what: str, key: str) -> str:
    return f"the {what} in {key}" if settings.location is None else f"the {what} {settings.location}"


def _content(settings: StoreSettings, *, is_key_store: bool) -> StoreContent:
    if settings.type == PEM:
        if settings.location is None:
            certificates = settings.certificates or ""
            key = settings.key or ""
        else:
            certificates = key = _file(settings.location).decode("utf-8", "replace")
        if is_key_store:
            return key_store_from_pem(key, certificates, settings.key_password)
        return trust_store_from_pem(certificates)
    assert settings.location is not None
    data = _file(settings.location)
    if data.startswith(jks.MAGIC):
        return jks.store_from_jks(data, settings.password, settings.key_password)
    return store_from_pkcs12(data, settings.password)


def _file(location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise StoreError(f"{error.strerror}") from error
    if len(data) > STORE_BYTES_MAX:
        raise StoreError(f"it is larger than {STORE_BYTES_MAX} bytes")
    return data
