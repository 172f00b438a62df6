"""TLS by the settings of one listener: its stores and contexts, and which may replace them while it serves.

Loaded by nodes that have such a listener.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.principal import Principal
from tidelog.net.tls import ClientTls, ServerTls
from tidelog.security.der import CertificateFields
from tidelog.security.distinguished_name import distinguished_name
from tidelog.security.key_store_change import check_mutual_trust, check_replacement
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context, verify_handshake
from tidelog.security.tls_settings import TlsSettings, principal_rules
from tidelog.security.tls_stores import TlsStores, load_stores, modification_times


class LoadedTls(NamedTuple):
    """What the settings of a listener come to."""

    settings: TlsSettings
    stores: TlsStores
    accepting: ssl.SSLContext | None
    calling: ssl.SSLContext | None


class ListenerTls:
    """TLS by the settings of one listener: for those who come, for calling others, or for both."""

    def __init__(
        self, config: ConfigValues, name: str, *, is_sasl: bool, accepts: bool, calls: bool, between_brokers: bool
    ) -> None:
        self.name = name
        self._is_sasl = is_sasl
        self._accepts, self._calls, self._between_brokers = accepts, calls, between_brokers
        self.loaded = self._load(config.given)
        if between_brokers:
            _check_itself(name, self.loaded)
        accepting, calling = self.loaded.accepting, self.loaded.calling
        self.server = None if accepting is None else ServerTls(accepting, self._principal_of(config))
        self.client = None if calling is None else ClientTls(calling)

    def settings(self, given: Mapping[str, object]) -> TlsSettings:
        return TlsSettings.of(ListenerSettings(given, self.name), is_sasl=self._is_sasl)

    def is_changed(self, given: Mapping[str, object]) -> bool:
        """Whether reading by these settings would give something else."""
        settings = self.settings(given)
        return settings != self.loaded.settings or modification_times(settings) != self.loaded.stores.modified_ns

    def load_replacement(self, given: Mapping[str, object]) -> LoadedTls:
        """ConfigError where it must not replace what there is. Reads files and derives keys: for slow work."""
        new = self._load(given)
        try:
            check_replacement(self.loaded.stores, new.stores, new.settings)
            if self._between_brokers:
                check_mutual_trust(self.loaded.settings, self.loaded.stores, new.settings, new.stores)
        except ConfigError as error:
            raise ConfigError(f"Listener {self.name}: {error}") from error
        return new

    def replace(self, new: LoadedTls) -> None:
        """Connections that come later use it."""
        self.loaded = new
        if self.server is not None and new.accepting is not None:
            self.server.context = new.accepting
        if self.client is not None and new.calling is not None:
            self.client.context = new.calling

    def _load(self, given: Mapping[str, object]) -> LoadedTls:
        try:
            settings = self.settings(given)
            stores = load_stores(settings)
            accepting = server_context(settings, stores) if self._accepts else None
            calling = client_context(settings, stores) if self._calls else None
        except ConfigError as error:
            raise ConfigError(f"Listener {self.name} uses TLS: {error}") from error
        return LoadedTls(settings, stores, accepting, calling)

    def _principal_of(self, config: ConfigValues) -> Callable[[bytes], Principal] | None:
        """With SASL the login alone says who somebody is."""
        if self._is_sasl:
            return None
        rules = principal_rules(ListenerSettings(config.given, self.name))
        return lambda certificate: Principal(
            "User", rules.name(distinguished_name(CertificateFields.of(certificate).subject))
        )


def _check_itself(name: str, loaded: LoadedTls) -> None:
    """Brokers with the same settings must be able to call each other."""
    if loaded.accepting is None or loaded.calling is None:
        return
    try:
        verify_handshake(loaded.accepting, loaded.calling)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", None) or error.reason
        raise ConfigError(
            f"Listener {name} is for calls between brokers, and a broker with its settings cannot call one with the same: "
            f"{reason}; check that the trust store has the authority of the key store"
        ) from error
