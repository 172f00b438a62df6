"""The short way of a Fetch request: a consumer that reads on, without making a message of its request or of the answer.

    lane.take(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

Almost every Fetch of a consumer outside of a session (librdkafka opens none) is alike: a version of today, any byte is enough,
and every partition is here and readable at the offset. A compiled kernel reads such a request, and its answer is packed by
hand. Whatever else there may be to a request is not taken, not even in part, and goes through `handlers.fetch`.

A fetch that finds nothing waits as one of `delayed_fetch` does: it watches its partitions and reads again what has changed. If it
then meets an error, the handler's own code says so.

What every request runs through is in [fetch_lane_kernel](kernels/fetch_lane_kernel.py), which is compiled; here is the rest.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import TYPE_CHECKING, Any

from tidelog.broker.data.fetch_sessions import FetchEntry
from tidelog.broker.handlers.fetch import TOPIC_ID_VERSION, answer_of_read
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.node_view import Node
from tidelog.kernel_choice import load
from tidelog.wire.codec import encode_parts, parts_bytes
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest

if TYPE_CHECKING:
    from tidelog.broker.data.kernels.fetch_lane_kernel import FetchLaneCore, WaitingFetch, copied_records
else:
    _kernel = load("tidelog.broker.data.kernels", "fetch_lane_kernel")
    FetchLaneCore, WaitingFetch, copied_records = _kernel.FetchLaneCore, _kernel.WaitingFetch, _kernel.copied_records

__all__ = ["FETCH_KEY", "FetchLane", "copied_records"]

_wire = load("tidelog.wire.kernels", "fetch_kernel")
_read_fetch = _wire.read_fetch

FETCH_KEY = FetchRequest.api_key

_ENVELOPE = Layout(">iB")


class FetchLane(FetchLaneCore):
    """For one listener."""

    __slots__ = ()

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        super().__init__(node, authorizer, _read_fetch, _wire.write_fetched)

    def _answer_with_errors(self, fetch: WaitingFetch) -> int:
        """Give the answer, as the handler would. How many bytes it takes."""
        version = fetch.version
        by_id = version >= TOPIC_ID_VERSION
        entries = [
            FetchEntry(
                topic if by_id else topic.decode(),
                FetchPartition(
                    partition=index,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                ),
            )
            for topic, index, epoch, offset, partition_max_bytes in fetch.asked
        ]
        caller = Caller(fetch.connection, None, FETCH_KEY, version, self._authorizer)
        answer = answer_of_read(entries, fetch.partitions, fetch.results, caller, self._node)
        self._node.metrics.requests[FETCH_KEY, version].count_errors(answer)
        parts: list[Any] = [_ENVELOPE.pack(fetch.correlation_id, 0), *encode_parts(answer, version)]
        fetch.slot.send(parts)
        return parts_bytes(parts)
