"""A node's security, put together: SASL in front of its listeners, and how it calls others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.broker.config.listeners import ListenerSpec, controllers_use_sasl
from tidelog.model import broker_config as keys
from tidelog.model.cluster_config import INTER_BROKER_LISTENER_NAME
from tidelog.model.config import ConfigValues
from tidelog.model.listener_config import CONNECTION_FAILED_AUTHENTICATION_DELAY_MS
from tidelog.model.sasl_config import SASL_SERVER_MAX_RECEIVE_SIZE
from tidelog.model.timers import Timers
from tidelog.net.connection import FrameHandler
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.security.listener_settings import ListenerSettings
from tidelog.storage.seams import Seams

# The mechanisms are imported where one is asked for: a node without SASL starts without them.
if TYPE_CHECKING:
    from tidelog.broker.metrics.authentication_metrics import AuthenticationMetrics
    from tidelog.broker.security.sasl_listener import SaslListener
    from tidelog.broker.security.sasl_mechanisms import TokenLogins
    from tidelog.security.sasl.scram_credential import ScramCredential


class NodeSecurity:
    """One for each node. ConfigError says in one sentence why a node cannot start so."""

    def __init__(self, config: ConfigValues, specs: Sequence[ListenerSpec], seams: Seams) -> None:
        self._config = config
        self._seams = seams
        self.to_controllers = self._calls_to_controllers()
        self.to_brokers = self._calls_to_brokers(specs)

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

    def _calls_to_controllers(self) -> ConnectionSecurity:
        config, seams = self._config, self._seams
        names: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
        if not names or not controllers_use_sasl(config):
            return ConnectionSecurity()
        from tidelog.broker.security.node_logins import controller_login  # noqa: PLC0415 - see above

        settings = ListenerSettings(config.given, names[0])
        login = controller_login(settings, seams.slow_work, seams.random, seams.clock.now_ms, self._client_id)
        return ConnectionSecurity(authentication=login)

    def _calls_to_brokers(self, specs: Sequence[ListenerSpec]) -> ConnectionSecurity:
        config, seams = self._config, self._seams
        named: str = config[INTER_BROKER_LISTENER_NAME]
        between = [spec for spec in specs if not spec.is_controller and named in ("", spec.name)]
        if not between or not between[0].uses_sasl:
            return ConnectionSecurity()
        from tidelog.broker.security.node_logins import broker_login  # noqa: PLC0415 - see above

        settings = ListenerSettings(config.given, between[0].name)
        login = broker_login(settings, seams.slow_work, seams.random, seams.clock.now_ms, self._client_id)
        return ConnectionSecurity(authentication=login)

    @property
    def _client_id(self) -> str:
        return str(self._config[keys.NODE_ID])
