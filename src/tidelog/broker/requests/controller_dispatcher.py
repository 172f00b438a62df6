"""The frame handler of a listener for controllers: that of any listener, which also tells of connections that end.

It serves before the cluster's ACLs are there, since without it they would never be. Until then only super users can be answered:
whoever else asks loses its connection, and asks again by the next one.
"""

from __future__ import annotations

import logging

from tidelog.broker.cluster.broker_watch import BrokerWatch
from tidelog.broker.requests.caller import Authorizer
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.broker.requests.node_view import Node
from tidelog.net.connection import Connection
from tidelog.security.authorizer import AuthorizerNotReadyError

logger = logging.getLogger(__name__)


class ControllerDispatcher(Dispatcher):
    """Begins to answer as soon as the quorum is there: without answers there would never be a leader."""

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        super().__init__(node, authorizer, "controller")
        self._watch: BrokerWatch | None = None

    def begin(self, watch: BrokerWatch) -> None:
        """Answer from now on. `watch` hears of every connection that ends."""
        self._watch = watch
        self.is_ready = True

    def frame(self, connection: Connection, frame: memoryview) -> None:
        try:
            super().frame(connection, frame)
        except AuthorizerNotReadyError as error:
            # Nodes are what comes here so early: without super users among them no cluster ever gets beyond this.
            logger.info(
                "closing %s: what %s may do is not known yet, since it is not among super.users: %s",
                connection,
                connection.principal,
                error,
            )
            connection.close_when_sent()

    def connection_closed(self, connection: Connection) -> None:
        super().connection_closed(connection)
        if self._watch is not None:
            self._watch.connection_closed(connection)
