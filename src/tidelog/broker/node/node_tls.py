"""TLS of a node: of each listener that has it, and of the calls to other nodes; read at the start, and again while it serves.

    tls = NodeTls(config, specs, ...)            ConfigError in one sentence for what cannot be
    tls.server("CLIENTS")                        for the listener; None where it has no TLS
    tls.brokers, tls.controllers                 how other nodes are called, by the settings of the listeners for that
    tls.check(changed)                           whether a change at run time may be; tls.follow(changed) does it
    tls.start(timers)                            from now on files that are written again are read again, if so configured

As in Kafka ten keys change at run time, those of the stores; a listener keeps its identity (`security.key_store_change`).
Connections that come later use the new context.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.broker.config.listeners import ListenerSpec, inter_broker_listener, security_protocol
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timer, Timers
from tidelog.model.tls_config import STORE_NAMES, TIDELOG_SSL_RELOAD_INTERVAL_MS
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.net.tls import ClientTls, ServerTls
from tidelog.security.der import CertificateFields
from tidelog.security.distinguished_name import distinguished_name
from tidelog.security.key_store_change import check_mutual_trust, check_replacement
from tidelog.security.listener_settings import ListenerSettings, without_listener
from tidelog.security.tls_contexts import client_context, server_context, verify_handshake
from tidelog.security.tls_settings import TlsSettings, principal_rules
from tidelog.security.tls_stores import TlsStores, load_stores, modification_times

log = logging.getLogger(__name__)


class _Loaded(NamedTuple):
    """What the settings of a listener come to."""

    settings: TlsSettings
    stores: TlsStores
    accepting: ssl.SSLContext | None
    calling: ssl.SSLContext | None


class _ListenerTls:
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

    def load_replacement(self, given: Mapping[str, object]) -> _Loaded:
        """ConfigError where it must not replace what there is. Reads files and derives keys: for slow work."""
        new = self._load(given)
        try:
            check_replacement(self.loaded.stores, new.stores, new.settings)
            if self._between_brokers:
                check_mutual_trust(self.loaded.settings, self.loaded.stores, new.settings, new.stores)
        except ConfigError as error:
            raise ConfigError(f"Listener {self.name}: {error}") from error
        return new

    def replace(self, new: _Loaded) -> None:
        """Connections that come later use it."""
        self.loaded = new
        if self.server is not None and new.accepting is not None:
            self.server.context = new.accepting
        if self.client is not None and new.calling is not None:
            self.client.context = new.calling

    def _load(self, given: Mapping[str, object]) -> _Loaded:
        try:
            settings = self.settings(given)
            stores = load_stores(settings)
            accepting = server_context(settings, stores) if self._accepts else None
            calling = client_context(settings, stores) if self._calls else None
        except ConfigError as error:
            raise ConfigError(f"Listener {self.name} uses TLS: {error}") from error
        return _Loaded(settings, stores, accepting, calling)

    def _principal_of(self, config: ConfigValues) -> Callable[[bytes], Principal] | None:
        """With SASL the login alone says who somebody is."""
        if self._is_sasl:
            return None
        rules = principal_rules(ListenerSettings(config.given, self.name))
        return lambda certificate: Principal(
            "User", rules.name(distinguished_name(CertificateFields.of(certificate).subject))
        )


def _check_itself(name: str, loaded: _Loaded) -> None:
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


class NodeTls:
    """One for each node; without a listener that has TLS it holds nothing and does nothing."""

    def __init__(self, config: ConfigValues, specs: Iterable[ListenerSpec], slow_work: SlowWork) -> None:
        self._static = config
        self._slow_work = slow_work
        between_brokers = inter_broker_listener(config)
        to_controllers = config[keys.CONTROLLER_LISTENER_NAMES][:1]
        calls = {name for name in (between_brokers, *to_controllers) if name}
        accepts = {spec.name for spec in specs}
        self._listeners: dict[str, _ListenerTls] = {}
        for name in sorted(accepts | calls):
            protocol = security_protocol(config, name)
            if protocol.uses_tls:
                self._listeners[name] = _ListenerTls(
                    config,
                    name,
                    is_sasl=protocol.uses_sasl,
                    accepts=name in accepts,
                    calls=name in calls,
                    between_brokers=name == between_brokers,
                )
        self.brokers = self._security(between_brokers)
        self.controllers = self._security(*to_controllers)
        self._given = self._effective(config)
        self._is_reading = False
        self._timer: Timer | None = None

    def server(self, listener_name: str) -> ServerTls | None:
        """For a listener; None where it has no TLS."""
        listener = self._listeners.get(listener_name)
        return None if listener is None else listener.server

    def servers(self) -> Iterable[tuple[str, ServerTls]]:
        return [(name, each.server) for name, each in self._listeners.items() if each.server is not None]

    def expiries_s(self, now_ms: int) -> Iterable[tuple[str, float]]:
        """How long the certificate of each listener is still valid; negative once it is not."""
        for name, each in self._listeners.items():
            fields = each.loaded.stores.fields
            if each.server is not None and fields is not None:
                yield name, fields.not_after.timestamp() - now_ms / 1000

    def check(self, changed: ConfigValues) -> Pending[ConfigError | None]:
        """Why stores must not be replaced by what this configuration says. Nothing is replaced."""
        given = self._effective(changed)
        checked: Pending[ConfigError | None] = Pending()

        def told(read: dict[str, _Loaded] | BaseException) -> None:
            checked.complete(_problem(read))

        self._slow_work.submit(lambda: self._read(given), told)
        return checked

    def follow(self, changed: ConfigValues) -> None:
        """The configuration has become this: as Kafka, also files that were written again are read for it."""
        self._given = self._effective(changed)
        self._read_again()

    def start(self, timers: Timers) -> None:
        """Looks for files that were written again, as often as configured."""
        interval_ms: int = self._static[TIDELOG_SSL_RELOAD_INTERVAL_MS]
        if interval_ms >= 0 and self._listeners:
            self._timer = timers.after(interval_ms, lambda: self._look(timers))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, timers: Timers) -> None:
        self._read_again()
        self.start(timers)

    def _security(self, name: str = "") -> ConnectionSecurity:
        listener = self._listeners.get(name)
        return ConnectionSecurity(None if listener is None else listener.client)

    def _effective(self, changed: ConfigValues) -> dict[str, object]:
        """What the node was started with, and of what was changed since, the stores alone."""
        given = dict(self._static.given)
        given.update((name, value) for name, value in changed.given.items() if without_listener(name) in STORE_NAMES)
        return given

    def _read(self, given: Mapping[str, object]) -> dict[str, _Loaded]:
        """What has changed. Reads files: for slow work."""
        return {name: each.load_replacement(given) for name, each in self._listeners.items() if each.is_changed(given)}

    def _read_again(self) -> None:
        if self._is_reading or not self._listeners:
            return
        self._is_reading = True
        given = self._given
        self._slow_work.submit(lambda: self._read(given), lambda read: self._replace(given, read))

    def _replace(self, given: Mapping[str, object], read: dict[str, _Loaded] | BaseException) -> None:
        self._is_reading = False
        if isinstance(read, BaseException):
            log.error("keys and certificates stay as they are: %s", read)
        else:
            for name, new in read.items():
                self._listeners[name].replace(new)
                fields = new.stores.fields
                ends = "" if fields is None else f", valid until {_day(fields.not_after)}"
                log.info("listener %s: new connections use other keys and certificates%s", name, ends)
        if self._given != given:
            # They have changed again meanwhile.
            self._read_again()


def _problem(read: dict[str, _Loaded] | BaseException) -> ConfigError | None:
    if not isinstance(read, BaseException):
        return None
    return read if isinstance(read, ConfigError) else ConfigError(f"{type(read).__name__}: {read}")


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
