"""How a node is: Kafka's broker states, and the page that says in one answer whether to send it any traffic.

200  {"status": "running", ...}     it serves, from all of its log directories
503  {"status": ..., ...}           it starts or stops, or a log directory is offline ("degraded")
"""

from __future__ import annotations

import json
from enum import IntEnum
from http import HTTPStatus
from typing import NamedTuple

from tidelog.model.ids import NodeId
from tidelog.net.http_endpoint import Page


class BrokerState(IntEnum):
    """Kafka's numbers, as the metric `kafka_server_kafka_server_broker_state` gives them."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Health(NamedTuple):
    """What a watcher wants to know of a node."""

    state: BrokerState
    node_id: NodeId
    cluster_id: str
    is_active_controller: bool
    offline_log_dirs: list[str]

    @property
    def is_good(self) -> bool:
        return self.state is BrokerState.RUNNING and not self.offline_log_dirs

    @property
    def status(self) -> str:
        if self.state is BrokerState.RUNNING and self.offline_log_dirs:
            return "degraded"
        return self.state.name.lower()


def health_page(health: Health) -> Page:
    """The answer to `/health`."""
    said = {
        "status": health.status,
        "node_id": health.node_id,
        "cluster_id": health.cluster_id,
        "active_controller": health.is_active_controller,
        "offline_log_dirs": health.offline_log_dirs,
    }
    status = HTTPStatus.OK if health.is_good else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(status, "application/json", [json.dumps(said).encode() + b"\n"])
