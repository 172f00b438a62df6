"""A node's security, put together: SASL in front of its listeners, and how it calls others, by TLS or not, with SASL or not."""

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
from tidelog.security.listener_settings import ListenerSettings
from tidelog.storage.seams import Seams

# The mechanisms are imported where one is asked for: a node without SASL starts without them.
if TYPE_CHECKING:
    from tidelog.broker.metrics.authentication_metrics import AuthenticationMetrics
    from tidelog.broker.security.sasl_listener import BehindLogin, SaslListener
    from tidelog.broker.security.sasl_mechanisms import TokenLogins
    from tidelog.net.address import Address
    from tidelog.net.connection_security import ClientAuthentication
    from tidelog.security.sasl.scram_credential import ScramCredential


class NodeSecurity:
    """One for each node. ConfigError says in one sentence why a node cannot start so."""

    def __init__(
        self, config: ConfigValues, tls: NodeTls, seams: Seams, timers: Timers, now: Callable[[], ConfigValues]
    ) -> None:
        """`config` is what the node is started with, `now` what that comes to at a later moment."""
        self._config = config
        self._now = now
        self._seams = seams
        self._timers = timers
        self._closing: list[Callable[[], None]] = []
        names: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
        self.controllers = tls.controllers._replace(
            authentication=self._login(names[0] if names else "", is_controller=True)
        )
        self.brokers = tls.brokers._replace(
            authentication=self._login(inter_broker_listener(config), is_controller=False)
        )

    def sasl_listener(
        self,
        name: str,
        dispatcher: BehindLogin,
        credentials: Callable[[], Mapping[tuple[str, int], ScramCredential]],
        tokens: TokenLogins | None,
        metrics: AuthenticationMetrics,
        timers: Timers,
    ) -> SaslListener:
        """Who takes the requests of a SASL listener, and passes them on once it is known whose they are."""
        from tidelog.broker.security.sasl_listener import SaslListener  # noqa: PLC0415 - see above
        from tidelog.broker.security.sasl_mechanisms import CurrentSasl, MechanismParts, mechanisms_of  # noqa: PLC0415

        seams = self._seams
        clock = seams.clock
        parts = MechanismParts(credentials, tokens, seams.slow_work, seams.random, clock.now_ms)
        settings = ListenerSettings(self._config.given, name)
        return SaslListener(
            name,
            dispatcher,
            CurrentSasl(name, self._config, self._now, lambda settings: mechanisms_of(settings, parts)),
            metrics,
            clock,
            timers,
            request_bytes_max=settings[SASL_SERVER_MAX_RECEIVE_SIZE],
            failure_delay_ms=self._config[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        )

    def _login(self, listener_name: str, *, is_controller: bool) -> Callable[[Address], ClientAuthentication] | None:
        """How this node logs in to those that have such a listener; None where nobody is asked to."""
        config, seams = self._config, self._seams
        if not listener_name or not security_protocol(config, listener_name).uses_sasl:
            return None
        from tidelog.broker.security.node_logins import LoginParts, broker_login, controller_login  # noqa: PLC0415
        from tidelog.broker.security.node_tokens import TokenParts  # noqa: PLC0415 - see above
        from tidelog.broker.security.sasl_mechanisms import CurrentSasl  # noqa: PLC0415

        make = controller_login if is_controller else broker_login
        parts = LoginParts(
            TokenParts(seams.slow_work, seams.random, seams.clock, self._timers), str(config[keys.NODE_ID])
        )
        current = CurrentSasl(
            listener_name, config, self._now, lambda settings: make(settings, parts), lambda login: login.close()
        )
        self._closing.append(lambda: current().close())

        def login(address: Address) -> ClientAuthentication:
            """As the settings are when the connection is made."""
            return current().new(address)

        return login

    def close(self) -> None:
        """Nobody is called any more."""
        for close in self._closing:
            close()
