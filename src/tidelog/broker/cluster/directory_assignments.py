"""Tells the controller in which log directory each replica of this broker lies (AssignReplicasToDirs, KIP-858).

The controller places a replica on a broker; the broker with several directories chooses one. Until the controller knows which,
it cannot tell whose replicas a failed disk takes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicId
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.wire.messages.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tidelog.wire.schema import Request, Response

# What one request may carry; the rest goes with the next.
ASSIGNMENTS_PER_REQUEST_MAX = 2000
RETRY_MS = 500

Replica = tuple[TopicId, PartitionIndex]


class DirectoryAssignments:
    """What the controller is still to be told. It hears of nothing before `start`: a broker speaks once it is registered."""

    def __init__(
        self,
        ask: Callable[[Request], Pending[Response]],
        timers: Timers,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_wanted` says whether the cluster's metadata has directories at its present level."""
        self._ask = ask
        self._timers = timers
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._is_wanted = is_wanted
        self._untold: dict[Replica, DirectoryId] = {}
        self._timer: Timer | None = None
        self._is_started = False
        self._is_asking = False

    def placed(self, topic_id: TopicId, index: PartitionIndex, directory: DirectoryId) -> None:
        """A replica lies in a directory. What was said of it before does not count any more."""
        self._untold[topic_id, index] = directory
        self._send_after(0)

    def start(self) -> None:
        """The broker is registered."""
        self._is_started = True
        self._send_after(0)

    def look_again(self) -> None:
        """The level of the metadata may have been raised to one that has directories."""
        self._send_after(0)

    def stop(self) -> None:
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_after(self, delay_ms: int) -> None:
        # One timer gathers all that a single change of the metadata brings.
        is_idle = self._is_started and not self._is_asking and self._timer is None
        if is_idle and self._untold and self._is_wanted():
            self._timer = self._timers.after(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        told = dict(list(self._untold.items())[:ASSIGNMENTS_PER_REQUEST_MAX])
        for replica in told:
            del self._untold[replica]
        self._is_asking = True
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=_directories(told)
        )
        self._ask(request).then(lambda answer: self._answered(told, cast("AssignReplicasToDirsResponse", answer)))

    def _answered(self, told: dict[Replica, DirectoryId], answer: AssignReplicasToDirsResponse) -> None:
        self._is_asking = False
        failed = answer.error_code != ErrorCode.NONE
        if failed:
            # No active controller, or this broker has to register anew. A replica that has moved since is not set back.
            self._untold = {**told, **self._untold}
        # What the controller says of single replicas is final: they are not this broker's, or not any more.
        self._send_after(RETRY_MS if failed else 0)


def _directories(places: dict[Replica, DirectoryId]) -> list[DirectoryData]:
    grouped: dict[DirectoryId, dict[TopicId, list[PartitionData]]] = {}
    for (topic_id, index), directory in places.items():
        grouped.setdefault(directory, {}).setdefault(topic_id, []).append(PartitionData(partition_index=index))
    return [
        DirectoryData(
            id=directory,
            topics=[TopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        )
        for directory, topics in grouped.items()
    ]
