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
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidelog.broker.config.listeners import ListenerSpec, inter_broker_listener, security_protocol
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timer, Timers
from tidelog.model.tls_config import STORE_NAMES, TIDELOG_SSL_RELOAD_INTERVAL_MS
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.security.listener_settings import without_listener

if TYPE_CHECKING:
    from tidelog.broker.node.listener_tls import ListenerTls, LoadedTls
    from tidelog.net.tls import ServerTls

log = logging.getLogger(__name__)


class NodeTls:
    """One for each node; without a listener that has TLS it holds nothing and does nothing."""

    def __init__(self, config: ConfigValues, specs: Iterable[ListenerSpec], slow_work: SlowWork) -> None:
        self._static = config
        self._slow_work = slow_work
        between_brokers = inter_broker_listener(config)
        to_controllers = config[keys.CONTROLLER_LISTENER_NAMES][:1]
        calls = {name for name in (between_brokers, *to_controllers) if name}
        accepts = {spec.name for spec in specs}
        self._listeners: dict[str, ListenerTls] = {}
        for name in sorted(accepts | calls):
            protocol = security_protocol(config, name)
            if protocol.uses_tls:
                # A node without TLS starts without it.
                from tidelog.broker.node.listener_tls import ListenerTls  # noqa: PLC0415

                self._listeners[name] = ListenerTls(
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

        def told(read: dict[str, LoadedTls] | BaseException) -> None:
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

    def _read(self, given: Mapping[str, object]) -> dict[str, LoadedTls]:
        """What has changed. Reads files: for slow work."""
        return {name: each.load_replacement(given) for name, each in self._listeners.items() if each.is_changed(given)}

    def _read_again(self) -> None:
        if self._is_reading or not self._listeners:
            return
        self._is_reading = True
        given = self._given
        self._slow_work.submit(lambda: self._read(given), lambda read: self._replace(given, read))

    def _replace(self, given: Mapping[str, object], read: dict[str, LoadedTls] | BaseException) -> None:
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


def _problem(read: dict[str, LoadedTls] | BaseException) -> ConfigError | None:
    if not isinstance(read, BaseException):
        return None
    return read if isinstance(read, ConfigError) else ConfigError(f"{type(read).__name__}: {read}")


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
