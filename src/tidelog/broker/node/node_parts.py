"""What the parts of one node share: who it is, what it runs on, and how it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from tidelog.broker.coordinators.internal_topics import InternalTopics
from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.node.node_security import NodeSecurity
from tidelog.broker.share.share_sessions import ShareSessions
from tidelog.model.bugs import Housekeeping
from tidelog.model.config import ConfigValues
from tidelog.model.ids import NodeId
from tidelog.model.timers import Timers
from tidelog.net.socket_server import SocketServer
from tidelog.net.transport import Transport
from tidelog.storage.seams import Seams


class NodeParts(Struct, frozen=True):
    node_id: NodeId
    cluster_id: str
    config: ConfigValues
    """What the process was started with."""
    seams: Seams
    loop: asyncio.AbstractEventLoop
    timers: Timers
    transport: Transport
    server: SocketServer
    metrics: BrokerMetrics
    housekeeping: Housekeeping
    internal_topics: InternalTopics
    share_sessions: ShareSessions
    security: NodeSecurity
    stopping: list[Callable[[], object]]
    """How to stop each part that has been started: whoever starts one adds to it."""
