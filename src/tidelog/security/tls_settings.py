"""What the configuration says of TLS for one listener, checked as far as that goes without opening a file."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tidelog.model import tls_config as keys
from tidelog.model.config import ConfigError, ConfigKey
from tidelog.security.cipher_suites import CipherSuites, cipher_suites
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.principal_rules import PrincipalRules, RuleError

PEM = "PEM"
_FILE_TYPES = ("JKS", "PKCS12")
_VERSIONS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(Enum):
    """Whether a listener asks clients for a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class StoreSettings(NamedTuple):
    """Where a key store or a trust store is. Exactly one of `location` and `certificates` is set."""

    type: str
    location: str | None
    password: str | None
    key_password: str | None = None
    key: str | None = None
    certificates: str | None = None

    def __repr__(self) -> str:
        return f"StoreSettings({self.type}, {self.location or 'in the configuration'})"


class TlsSettings(NamedTuple):
    """TLS of one listener, and of the connections that go by its settings."""

    versions: tuple[str, str]
    """The lowest and the highest."""
    ciphers: CipherSuites
    client_auth: ClientAuth
    key_store: StoreSettings | None
    trust_store: StoreSettings | None
    checks_host_name: bool
    allows_dn_changes: bool
    allows_san_changes: bool

    @classmethod
    def of(cls, settings: ListenerSettings, *, is_sasl: bool = False) -> TlsSettings:
        """ConfigError, in a sentence that names the key, for what contradicts itself or is not supported."""
        names: tuple[str, ...] = settings[keys.SSL_CIPHER_SUITES]
        ciphers = cipher_suites(names)
        asks = not is_sasl or settings.is_own(keys.SSL_CLIENT_AUTH)
        return cls(
            versions=_versions(settings, ciphers),
            ciphers=ciphers,
            client_auth=ClientAuth(settings[keys.SSL_CLIENT_AUTH]) if asks else ClientAuth.NONE,
            key_store=_key_store(settings),
            trust_store=_trust_store(settings),
            checks_host_name=_checks_host_name(settings),
            allows_dn_changes=settings[keys.SSL_ALLOW_DN_CHANGES],
            allows_san_changes=settings[keys.SSL_ALLOW_SAN_CHANGES],
        )


def principal_rules(settings: ListenerSettings) -> PrincipalRules:
    """ConfigError for rules that cannot be."""
    try:
        return PrincipalRules.parse(settings[keys.SSL_PRINCIPAL_MAPPING_RULES])
    except RuleError as error:
        raise ConfigError(f"{keys.SSL_PRINCIPAL_MAPPING_RULES.name}: {error}") from error


def _versions(settings: ListenerSettings, ciphers: CipherSuites) -> tuple[str, str]:
    highest = settings[keys.SSL_PROTOCOL]
    if highest not in {"TLS", *_VERSIONS}:
        raise ConfigError(f"{keys.SSL_PROTOCOL.name} is {highest}, and only TLSv1.2 and TLSv1.3 are supported")
    enabled = settings[keys.SSL_ENABLED_PROTOCOLS]
    for version in enabled:
        if version not in _VERSIONS:
            name = keys.SSL_ENABLED_PROTOCOLS.name
            raise ConfigError(f"{name} names {version}, and only TLSv1.2 and TLSv1.3 are supported")
    if not enabled:
        enabled = _VERSIONS[:1] if highest == _VERSIONS[0] else _VERSIONS
    allowed = {_VERSIONS[0]: ciphers.allows_tls_1_2, _VERSIONS[1]: ciphers.allows_tls_1_3}
    usable = [version for version in _VERSIONS if version in enabled and allowed[version]]
    if not usable:
        raise ConfigError(
            f"{keys.SSL_CIPHER_SUITES.name} names no cipher suite of {', '.join(enabled)}, which "
            f"{keys.SSL_ENABLED_PROTOCOLS.name} allows alone"
        )
    return usable[0], usable[-1]


def _checks_host_name(settings: ListenerSettings) -> bool:
    algorithm = settings[keys.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM].strip()
    if algorithm and algorithm.lower() != "https":
        name = keys.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM.name
        raise ConfigError(f"{name} is {algorithm}, and only https, or nothing to switch it off, is supported")
    return bool(algorithm)


def _type(settings: ListenerSettings, key: ConfigKey[str]) -> str:
    kind = settings[key].upper()
    if kind not in {PEM, *_FILE_TYPES}:
        raise ConfigError(f"{key.name} is {settings[key]}, and only JKS, PKCS12 and PEM are supported")
    return kind


def _key_store(settings: ListenerSettings) -> StoreSettings | None:
    kind = _type(settings, keys.SSL_KEYSTORE_TYPE)
    location, password = settings[keys.SSL_KEYSTORE_LOCATION] or None, settings[keys.SSL_KEYSTORE_PASSWORD]
    key, chain = settings[keys.SSL_KEYSTORE_KEY], settings[keys.SSL_KEYSTORE_CERTIFICATE_CHAIN]
    key_password = settings[keys.SSL_KEY_PASSWORD]
    problem = _key_store_problem(kind, location, password, key, chain)
    if problem is not None:
        raise ConfigError(problem)
    if key is None and location is None:
        return None
    return StoreSettings(kind, location, password, key_password, key, chain)


def _key_store_problem(
    kind: str, location: str | None, password: str | None, key: str | None, chain: str | None
) -> str | None:
    """The words of Kafka's `DefaultSslEngineFactory`."""
    if key is not None:
        if kind != PEM:
            return f"SSL private key can be specified only for PEM, but key store type is {kind}."
        if chain is None:
            return "SSL private key is specified, but certificate chain is not specified."
        if location is not None:
            return "Both SSL key store location and separate private key are specified."
    elif chain is not None:
        return "SSL certificate chain is specified, but private key is not specified"
    if kind == PEM and (key is not None or location is not None):
        if password is not None:
            return "SSL key store password cannot be specified with PEM format, only key password may be specified."
    elif location is None and password is not None:
        return "SSL key store is not specified, but key store password is specified."
    elif location is not None and password is None:
        return "SSL key store is specified, but key store password is not specified."
    return None


def _trust_store(settings: ListenerSettings) -> StoreSettings | None:
    kind = _type(settings, keys.SSL_TRUSTSTORE_TYPE)
    location, password = settings[keys.SSL_TRUSTSTORE_LOCATION] or None, settings[keys.SSL_TRUSTSTORE_PASSWORD]
    certificates = settings[keys.SSL_TRUSTSTORE_CERTIFICATES]
    if certificates is not None:
        if kind != PEM:
            raise ConfigError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if location is not None:
            raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
    if kind == PEM and (certificates is not None or location is not None):
        if password is not None:
            raise ConfigError("SSL trust store password cannot be specified for PEM format.")
    elif location is None and password is not None:
        raise ConfigError("SSL trust store is not specified, but trust store password is specified.")
    if certificates is None and location is None:
        return None
    return StoreSettings(kind, location, password, certificates=certificates)
