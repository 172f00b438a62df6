"""The configuration keys of TLS: stores of keys and certificates, versions, cipher suites, and whom a listener asks for a
certificate.

Names, defaults and ranges are those of Apache Kafka 4.3. Each may be set for one listener (`listener.name.<listener>.<key>`).
What only a JVM can act on is in `unused_config`.
"""

from __future__ import annotations

from tidelog.model.config import (
    ConfigKey,
    ConfigKeys,
    ConfigType,
    UpdateMode,
    bool_key,
    list_key,
    long_key,
    string_key,
)

_PER_BROKER = UpdateMode.PER_BROKER


def _text_or_none(name: str, doc: str) -> ConfigKey[str | None]:
    return ConfigKey(name, ConfigType.STRING, None, doc, _PER_BROKER)


def _password(name: str, doc: str) -> ConfigKey[str | None]:
    return ConfigKey(name, ConfigType.PASSWORD, None, doc, _PER_BROKER)


SSL_PROTOCOL = string_key(
    "ssl.protocol",
    "TLSv1.3",
    update_mode=_PER_BROKER,
    doc="The highest version of TLS where `ssl.enabled.protocols` is empty.",
)
SSL_ENABLED_PROTOCOLS = list_key(
    "ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    update_mode=_PER_BROKER,
    doc="The versions of TLS that may be used.",
)
SSL_CIPHER_SUITES = list_key(
    "ssl.cipher.suites",
    (),
    update_mode=_PER_BROKER,
    doc="The cipher suites that may be used, by their IANA names; all by default. Those of TLS 1.3 all together, or none.",
)
SSL_CLIENT_AUTH = string_key(
    "ssl.client.auth",
    "none",
    choices=("required", "requested", "none"),
    update_mode=_PER_BROKER,
    doc="Whether clients must show a certificate. A SASL_SSL listener asks for one only if this is set with its prefix.",
)
SSL_KEYSTORE_TYPE = string_key(
    "ssl.keystore.type",
    "JKS",
    update_mode=_PER_BROKER,
    doc="The format of the private key and its certificates: JKS, PKCS12 or PEM.",
)
SSL_KEYSTORE_LOCATION = _text_or_none("ssl.keystore.location", "The file of the private key and its certificates.")
SSL_KEYSTORE_PASSWORD = _password("ssl.keystore.password", "The password of that file; none for PEM.")
SSL_KEY_PASSWORD = _password("ssl.key.password", "The password of the private key, where it is not that of its file.")
SSL_KEYSTORE_KEY = _password("ssl.keystore.key", "The private key as PEM, PKCS#8, instead of a file.")
SSL_KEYSTORE_CERTIFICATE_CHAIN = _password(
    "ssl.keystore.certificate.chain", "The certificate of that key and those that sign it, as PEM."
)
SSL_TRUSTSTORE_TYPE = string_key(
    "ssl.truststore.type",
    "JKS",
    update_mode=_PER_BROKER,
    doc="The format of the certificates that are trusted: JKS, PKCS12 or PEM.",
)
SSL_TRUSTSTORE_LOCATION = _text_or_none("ssl.truststore.location", "The file of the certificates that are trusted.")
SSL_TRUSTSTORE_PASSWORD = _password(
    "ssl.truststore.password", "The password of that file; without one a JKS file is read unchecked."
)
SSL_TRUSTSTORE_CERTIFICATES = _password(
    "ssl.truststore.certificates", "The certificates that are trusted, as PEM, instead of a file."
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string_key(
    "ssl.endpoint.identification.algorithm",
    "https",
    update_mode=_PER_BROKER,
    doc="How the name of a node that is called is checked against its certificate. Empty: not at all.",
)
SSL_PRINCIPAL_MAPPING_RULES = string_key(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    doc="How the distinguished name of a client's certificate becomes the name of its principal.",
)
SSL_ALLOW_DN_CHANGES = bool_key(
    "ssl.allow.dn.changes", False, doc="Whether a certificate may be replaced at run time by one of another name."
)
SSL_ALLOW_SAN_CHANGES = bool_key(
    "ssl.allow.san.changes",
    False,
    doc="Whether a certificate may be replaced at run time by one that lacks some of its alternative names.",
)
TIDELOG_SSL_RELOAD_INTERVAL_MS = long_key(
    "tidelog.ssl.reload.interval.ms",
    -1,
    at_least=-1,
    doc="How often the node looks whether files of keys and certificates have changed, and uses them; -1 for never, as Kafka.",
)

TLS_KEYS = ConfigKeys(
    [
        SSL_PROTOCOL,
        SSL_ENABLED_PROTOCOLS,
        SSL_CIPHER_SUITES,
        SSL_CLIENT_AUTH,
        SSL_KEYSTORE_TYPE,
        SSL_KEYSTORE_LOCATION,
        SSL_KEYSTORE_PASSWORD,
        SSL_KEY_PASSWORD,
        SSL_KEYSTORE_KEY,
        SSL_KEYSTORE_CERTIFICATE_CHAIN,
        SSL_TRUSTSTORE_TYPE,
        SSL_TRUSTSTORE_LOCATION,
        SSL_TRUSTSTORE_PASSWORD,
        SSL_TRUSTSTORE_CERTIFICATES,
        SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
        SSL_PRINCIPAL_MAPPING_RULES,
        SSL_ALLOW_DN_CHANGES,
        SSL_ALLOW_SAN_CHANGES,
        TIDELOG_SSL_RELOAD_INTERVAL_MS,
    ]
)

# What may change at run time (`SslConfigs.RECONFIGURABLE_CONFIGS`): new connections use it.
_STORE_KEYS = (
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEY_PASSWORD,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_CERTIFICATES,
)
STORE_NAMES = frozenset(key.name for key in _STORE_KEYS)
