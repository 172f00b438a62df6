# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What every request runs through, whatever it asks: who takes it, and how it is counted.

This is one source for two twins: plain Python, and compiled with the types of
`_dispatch_kernel.pxd`.

    DispatcherCore      the quick part of `dispatch.Dispatcher`
    RequestCounts       the counts of one API in one version, with their Times: `request_metrics`
    TopicCountsCore     the counts of one topic: `topic_metrics`
    AllowAll            a cluster without an authoriser: `caller`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tidelog.model.metrics import LATENCY_BOUNDS_MS
from tidelog.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from tidelog.broker.data.produce_lane import ProduceLane
    from tidelog.model.acl import AclOperation, ResourceType
    from tidelog.model.clock import Clock
    from tidelog.net.connection import Connection, Principal
    from tidelog.wire.schema import Response

    Errors: TypeAlias = "defaultdict[int, int]"
    CountErrors: TypeAlias = "Callable[[Any, Errors], None]"
    # Given a request and when it was begun: whether it goes a short way. If not, nothing of it was noted or changed.
    Taker: TypeAlias = "Callable[[Connection, memoryview, int], bool]"

NS_PER_MS = 1_000_000
BOUNDS_NS = tuple(round(bound * NS_PER_MS) for bound in LATENCY_BOUNDS_MS)

# The same for this module alone: what C knows by its type, Python does not see.
_BOUNDS = BOUNDS_NS
_PRODUCE_KEY = int(ProduceRequest.api_key)
_SUM_MAX = 2**62


class DispatcherCore:
    """Offers each request to those who have a short way for it."""

    __slots__ = ("_begun_ns", "_lane", "_now_ns", "_takers")

    def __init__(self, clock: Clock, lane: ProduceLane | None, takers: dict[int, tuple[Taker, ...]]) -> None:
        """`takers`: by API, those who may take a request, in the order in which they are asked."""
        self._now_ns = clock.monotonic_ns
        self._lane = lane
        self._takers = takers
        # When the last request of this read was done: the next one begins there. 0 before the first.
        self._begun_ns = 0

    def _handle(self, connection: Connection, frame: memoryview, begun_ns: int) -> None:
        """For the subclass: a request that goes the ordinary way."""
        raise NotImplementedError

    def frames_done(self, connection: Connection) -> None:
        lane = self._lane
        if lane is not None and lane.is_open:
            lane.finish(connection)
        self._begun_ns = 0

    def frame(self, connection: Connection, frame: memoryview) -> None:
        self._frame(connection, frame)

    def _frame(self, connection: Connection, frame: memoryview) -> None:
        # Only a look at which lane to ask: a frame that is too short, or of no such API, is none of theirs.
        key = frame[1] if len(frame) > 1 else -1
        lane = self._lane
        if lane is not None:
            if key == _PRODUCE_KEY and lane.take(connection, frame):
                return
            # Whatever this request sees, it comes after those before it.
            if lane.is_open:
                lane.finish(connection)
        begun_ns = self._begun_ns or self._now_ns()
        takers = self._takers.get(key)
        if takers is not None:
            for take in takers:
                if take(connection, frame, begun_ns):
                    self._begun_ns = self._now_ns()
                    return
        self._handle(connection, frame, begun_ns)


class Times:
    """How often a time was at most each of `BOUNDS_NS`, as a `Histogram` that nothing but nanoseconds are put into."""

    __slots__ = ("_carried", "_sum", "counts")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        self._sum = 0
        # What did not fit: those who wait side by side, a thousand of them, fill one of C's numbers in a hundred days.
        self._carried = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def sum(self) -> int:
        return self._carried + self._sum

    def observe(self, elapsed_ns: int, count: int) -> None:
        """The same time, `count` times."""
        bounds = _BOUNDS
        # What `bisect_left` does, without objects to compare.
        place = 0
        end = len(bounds)
        while place < end:
            middle = (place + end) // 2
            bound = bounds[middle]
            if bound < elapsed_ns:
                place = middle + 1
            else:
                end = middle
        self.counts[place] += count
        self._sum += elapsed_ns * count
        if self._sum >= _SUM_MAX:
            self._carried += self._sum
            self._sum = 0


class RequestCounts:
    """The requests of one API in one version."""

    __slots__ = (
        "_count_errors",
        "at_once",
        "errors",
        "local",
        "remote",
        "request_bytes",
        "response_bytes",
        "total",
        "waiting",
    )

    def __init__(self, count_errors: CountErrors) -> None:
        # Of answers at once; the other three are of those that waited. In nanoseconds: an integer is the cheaper sum.
        self.at_once = Times()
        self.local = Times()
        self.remote = Times()
        self.total = Times()
        self.request_bytes = 0
        self.response_bytes = 0
        # Requests whose answer is still to come.
        self.waiting = 0
        self.errors: Errors = defaultdict(int)
        self._count_errors = count_errors

    @property
    def count(self) -> int:
        return self.at_once.count + self.total.count

    def answered(self, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response) -> None:
        """A request was answered by its handler."""
        self.answered_together(1, elapsed_ns, request_bytes, response_bytes)
        self._count_errors(answer, self.errors)

    def answered_together(
        self, count: int, elapsed_ns: int, request_bytes: int, response_bytes: int, without_error: int = 0
    ) -> None:
        """Several requests of one read were answered together, each after `elapsed_ns`. Their errors are counted apart, but for
        so many that are none."""
        self.at_once.observe(elapsed_ns, count)
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        if without_error:
            self.errors[0] += without_error

    def answered_later(
        self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response
    ) -> None:
        """A request was answered by an event: `local_ns` of its time was spent in its handler, the rest on waiting."""
        self.waited(local_ns, elapsed_ns, request_bytes, response_bytes)
        self._count_errors(answer, self.errors)

    def waited(
        self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int, without_error: int = 0
    ) -> None:
        """The same of one whose errors are counted apart, but for so many that are none."""
        self.waiting -= 1
        self.local.observe(local_ns, 1)
        self.remote.observe(elapsed_ns - local_ns, 1)
        self.total.observe(elapsed_ns, 1)
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        if without_error:
            self.errors[0] += without_error

    def count_errors(self, answer: Response) -> None:
        """The error codes in an answer, where nothing else of it is to be counted."""
        self._count_errors(answer, self.errors)

    def unanswered(self, elapsed_ns: int, request_bytes: int) -> None:
        """A request that wants no answer was handled."""
        self.at_once.observe(elapsed_ns, 1)
        self.request_bytes += request_bytes


class TopicCountsCore:
    """The numbers of one topic on this node."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "replication_bytes_out",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.replication_bytes_out = 0
        self.total_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0

    def produced(self, requests: int, messages: int, record_bytes: int) -> None:
        """So many batches have come, of which so much was written."""
        self.total_produce_requests += requests
        self.messages_in += messages
        self.bytes_in += record_bytes

    def fetched(self, record_bytes: int) -> None:
        """A partition was read by a consumer."""
        self.total_fetch_requests += 1
        self.bytes_out += record_bytes


class AllowAll:
    """A cluster without an authoriser, as Kafka's default is."""

    __slots__ = ()

    def allows(
        self,
        principal: Principal,  # noqa: ARG002
        host: str,  # noqa: ARG002
        operation: AclOperation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        return True
