"""A node's security, put together: SASL in front of its listeners, and how it calls others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidelog.broker.config.listeners import inter_broker_listener, security_protocol
from tidelog.broker.node.node_tls import NodeTls
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigValues
from tidelog.model.listener_config import CONNECTION_FAILED_AUTHENTICATION_DELAY_MS
from tidelog.model.sasl_config import SASL_SERVER_MAX_RECEIVE_SIZE
from tidelog.model.timers import Timers
from tidelog.net.address import Address
from tidelog.net.connection import FrameHandler
from tidelog.net.connection_security import ClientAuthentication, ConnectionSecurity
from tidelog.security.listener_settings import ListenerSettings
from tidelog.storage.seams import Seams

# The mechanisms are imported where one is asked for: a node without SASL starts without them.
if TYPE_CHECKING:
    from tidelog.broker.metrics.authentication_metrics import AuthenticationMetrics
    from tidelog.broker.security.sasl_listener import SaslListener
    from tidelog.broker.security.sasl_mechanisms import TokenLogins
    from tidelog.security.sasl.scram_credential import ScramCredential

Login = Callable[[Address], ClientAuthentication]
"""A new login for a connection to a node."""


class NodeSecurity:
    """One for each node. ConfigError says in one sentence why a node cannot start so."""

    def __init__(self, config: ConfigValues, tls: NodeTls, seams: Seams) -> None:
        self._config = config
        self._seams = seams
        self.to_controllers = ConnectionSecurity(tls.controllers.tls, self._login_to_controllers())
        self.to_brokers = ConnectionSecurity(tls.brokers.tls, self._login_to_brokers())

    def sasl_listener(
        self,
        name: str,
        dispatcher: FrameHandler,
        config: Callable[[], ConfigValues],
        credentials: Callable[[], Mapping[tuple[str, int], ScramCredential]],
        tokens: TokenLogins | None,
        metrics: AuthenticationMetrics,
        timers: Timers,
    ) -> SaslListener:
        """Who takes the requests of a SASL listener, and passes them on once it is known whose they are."""
        from tidelog.broker.security.sasl_listener import SaslListener  # noqa: PLC0415 - see above
        from tidelog.broker.security.sasl_mechanisms import CurrentMechanisms, MechanismParts  # noqa: PLC0415

        seams = self._seams
        clock = seams.clock
        parts = MechanismParts(credentials, tokens, seams.slow_work, seams.random, clock.now_ms)
        settings = ListenerSettings(self._config.given, name)
        return SaslListener(
            name,
            dispatcher,
            CurrentMechanisms(name, config, parts),
            metrics,
            clock,
            timers,
            request_bytes_max=settings[SASL_SERVER_MAX_RECEIVE_SIZE],
            failure_delay_ms=self._config[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        )

    def _login_to_controllers(self) -> Login | None:
        """What the first of their listeners asks for, which may be on other nodes alone."""
        config, seams = self._config, self._seams
        names: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
        if not names or not security_protocol(config, names[0]).uses_sasl:
            return None
        from tidelog.broker.security.node_logins import controller_login  # noqa: PLC0415 - see above

        settings = ListenerSettings(config.given, names[0])
        return controller_login(settings, seams.slow_work, seams.random, seams.clock.now_ms, self._client_id)

    def _login_to_brokers(self) -> Login | None:
        config, seams = self._config, self._seams
        name = inter_broker_listener(config)
        if not name or not security_protocol(config, name).uses_sasl:
            return None
        from tidelog.broker.security.node_logins import broker_login  # noqa: PLC0415 - see above

        settings = ListenerSettings(config.given, name)
        return broker_login(settings, seams.slow_work, seams.random, seams.clock.now_ms, self._client_id)

    @property
    def _client_id(self) -> str:
        return str(self._config[keys.NODE_ID])
