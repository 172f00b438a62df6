"""Which stores may replace others while a listener serves: Kafka's rules, in its words.

A listener keeps its identity: it neither gains nor loses a key store, its certificate keeps its distinguished name and loses none
of its alternative names, unless the configuration allows it. Between brokers the old and the new must trust each other: both
are in use while nodes change one after the other.
"""

from __future__ import annotations

import ssl

from tidelog.model.config import ConfigError
from tidelog.security.distinguished_name import distinguished_name, same_name
from tidelog.security.tls_contexts import client_context, server_context, verify_handshake
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores


def check_replacement(old: TlsStores, new: TlsStores, settings: TlsSettings) -> None:
    """ConfigError where `new`, read by `settings`, must not replace `old`."""
    before, after = old.fields, new.fields
    if before is None:
        if after is not None:
            raise ConfigError("Cannot add SSL keystore to an existing listener for which no keystore was configured.")
    elif after is None:
        raise ConfigError(
            "Cannot remove the SSL keystore from an existing listener for which a keystore was configured."
        )
    else:
        if not settings.allows_dn_changes and not same_name(before.subject, after.subject):
            raise ConfigError(
                f"Keystore DistinguishedName does not match:  existing={{DN={distinguished_name(before.subject)}}}, "
                f"new={{DN={distinguished_name(after.subject)}}}"
            )
        if not settings.allows_san_changes and not before.alternative_names <= after.alternative_names:
            raise ConfigError(
                f"Keystore SubjectAltNames do not match:  existing={{SAN={_shown(before.alternative_names)}}}, "
                f"new={{SAN={_shown(after.alternative_names)}}}"
            )
    if old.trusted is None and new.trusted is not None:
        raise ConfigError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")


def check_mutual_trust(old_settings: TlsSettings, old: TlsStores, new_settings: TlsSettings, new: TlsStores) -> None:
    """ConfigError unless a node with either can call one with the other. For the listener between brokers."""
    pairs = ((old_settings, old, new_settings, new), (new_settings, new, old_settings, old))
    for server_settings, server, client_settings, client in pairs:
        try:
            verify_handshake(server_context(server_settings, server), client_context(client_settings, client))
        except ssl.SSLError as error:
            raise ConfigError(
                "the key store and the trust store of the listener between brokers do not verify each other, "
                f"the present ones and the new: {getattr(error, 'verify_message', None) or error.reason}"
            ) from error


def _shown(names: frozenset[bytes]) -> str:
    return f"[{', '.join(sorted(map(_name_text, names)))}]"


def _name_text(name: bytes) -> str:
    """E-mail addresses, host names and addresses of the web are text."""
    return name[1:].decode("latin-1") if name[0] in {0x81, 0x82, 0x86} else name[1:].hex()
