# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What one request takes of its client's quotas, and what comes of it: a throttle time in the answer, and a muted connection.

    meter = meter_of(quotas, timers, now_ns, connection, client_id, metering, begun_ns)
    meter.passed_on(key, principal, id)    it is an Envelope: what it takes is taken of whoever asked the node that sent it
    meter.produced(request_bytes)          a Produce has arrived
    meter.fetched(response_bytes)          a Fetch would be answered like this
    meter.handled(now_ns)                  the handler is done, whether it has answered or not
    answer = meter.settled(answer)         the answer, with its throttle time
    meter.sent(now_ns)                     it is on its way

The answer leaves at once. Only then nothing is taken from the connection until the time is over, as in Kafka: a client that knows
of throttle times waits by itself, and any other is made to.

Where this differs from Kafka: the bytes of a Produce count when it arrives, not when it is answered. Kafka takes one request at a
time from a connection, and we take all that were read; so none is taken after the one that was too much.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Failed
from tidelog.wire.apis import ApiKey
from tidelog.wire.typed.message import TypedMessage

if TYPE_CHECKING:
    from tidelog.broker.quotas.accounts import Account
    from tidelog.broker.quotas.node_quotas import NodeQuotas
    from tidelog.model.principal import Principal
    from tidelog.model.timers import Timer, Timers
    from tidelog.net.connection import Connection
    from tidelog.wire.schema import Response

_NS_PER_MS = 1_000_000
_FETCH_BYTES_MAX = 2.0**31 - 1
_PERCENT_PER_NS = 100.0 / 1_000_000_000

# What the cluster does for itself: nobody waits for that.
EXEMPT_KEYS = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)

# What only nodes ask: one that fails does not wait either, unless it fails because it may not ask.
CLUSTER_ACTION_KEYS = frozenset(
    {
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ENVELOPE,
    }
)

# What the quorum answers itself, on a listener for controllers.
QUORUM_KEYS = frozenset({ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})


# What comes of an API's requests.
PAID = 0
EXEMPT = 1
EXEMPT_IF_IT_FAILS = 2


def metering_of(api_key: int, is_controller: bool) -> int:
    """How the requests of an API are metered. `is_controller`: of the listener."""
    if api_key in EXEMPT_KEYS or (is_controller and api_key in QUORUM_KEYS):
        return EXEMPT
    return EXEMPT_IF_IT_FAILS if api_key in CLUSTER_ACTION_KEYS else PAID


# The same for this module alone: what C knows by its type, Python does not see.
_EXEMPT = EXEMPT
_EXEMPT_IF_IT_FAILS = EXEMPT_IF_IT_FAILS


class ConnectionThrottle:
    """What is known of one connection's client: its accounts, and until when it is muted.

    The accounts are those of a client id and a principal, of which a connection may have another at any time.
    """

    __slots__ = ("_timer", "client_id", "fetch", "generation", "muted_until_ms", "principal", "produce", "request")

    def __init__(self) -> None:
        self.client_id: str | None = None
        self.principal: Principal | None = None
        self.generation = -1
        self.produce: Account | None = None
        self.fetch: Account | None = None
        self.request: Account | None = None
        self.muted_until_ms = 0
        self._timer: Timer | None = None

    def look_up(self, quotas: NodeQuotas, principal: Principal, client_id: str | None, now_ms: int) -> None:
        """The accounts that hold now. None of a kind that has no limit."""
        self.client_id, self.principal = client_id, principal
        # No client id is an empty one.
        names = principal.name, client_id or "", now_ms
        self.produce = quotas.produce.account(*names) if quotas.produce.is_on else None
        self.fetch = quotas.fetch.account(*names) if quotas.fetch.is_on else None
        self.request = quotas.request.account(*names) if quotas.request.is_on else None
        self.generation = quotas.generation()

    def mute(self, connection: Connection, timers: Timers, throttle_ms: int, now_ms: int) -> None:
        """Takes nothing more for a while. One timer, however often it is said."""
        self.muted_until_ms = max(self.muted_until_ms, now_ms + throttle_ms)
        connection.mute()
        if self._timer is None:
            self._arm(connection, timers, now_ms)

    def _arm(self, connection: Connection, timers: Timers, now_ms: int) -> None:
        def over() -> None:
            self._timer = None
            if self.muted_until_ms > until_ms:
                self._arm(connection, timers, until_ms)
            elif not connection.is_closed:
                connection.unmute()

        until_ms = self.muted_until_ms
        self._timer = timers.after(until_ms - now_ms, over)

    def close(self) -> None:
        """The connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Meter:
    """Of one request."""

    __slots__ = (
        "_begun_ns",
        "_clock",
        "_handled_ns",
        "_is_passed_on",
        "_is_settled",
        "_local_ns",
        "_metering",
        "_quotas",
        "_settled_ns",
        "_state",
        "_timers",
        "connection",
        "is_exempt",
        "produce_throttle_ms",
    )

    _quotas: NodeQuotas
    _timers: Timers
    _clock: Callable[[], int]
    _state: ConnectionThrottle
    _begun_ns: int
    connection: Connection

    # Made by `meter_of` alone, which sets all of them: arguments would all be put into a tuple, and taken out again.
    _local_ns: int
    _settled_ns: int
    _metering: int
    _is_settled: bool
    _is_passed_on: bool
    produce_throttle_ms: int
    """What the client has to wait for the bytes of a Produce, known before it is answered."""
    is_exempt: bool
    """Whether nobody waits for it."""

    def passed_on(self, api_key: int, principal: Principal, client_id: str | None) -> None:
        """It came in an Envelope. As in Kafka its client pays here too, for the controller's time, and is told of it; but the
        node that passed it on is not muted: it asks for others as well, and mutes the client itself."""
        self._state = ConnectionThrottle()
        self._state.look_up(self._quotas, principal, client_id, self._begun_ns // _NS_PER_MS)
        self._metering = metering_of(api_key, True)
        self.is_exempt = self._metering == _EXEMPT
        self._is_passed_on = True

    # --- what is taken -------------------------------------------------------------------------------------------------------

    def produced(self, request_bytes: int) -> int:
        """A Produce of so many bytes. Its throttle time."""
        account = self._state.produce
        if account is not None:
            now_ms = self._begun_ns // _NS_PER_MS
            throttle_ms = account.record(request_bytes, now_ms)
            if throttle_ms:
                self._throttle(account, throttle_ms, now_ms)
            self.produce_throttle_ms = throttle_ms
        return self.produce_throttle_ms

    def fetch_bytes_max(self) -> int:
        """More than this must not be fetched at once: it would be refused, and refused again. -1: there is no limit."""
        account = self._state.fetch
        most = None if account is None else account.most_at_once()
        return -1 if most is None else int(min(most, _FETCH_BYTES_MAX))

    def fetched(self, response_bytes: int) -> int:
        """A Fetch would be answered with so many bytes. Above 0: it must not be, and the answer is an empty one with this
        throttle time."""
        now_ns = self._clock()
        now_ms = now_ns // _NS_PER_MS
        request_ms = self._request_ms(now_ns, now_ms)
        account = self._state.fetch
        fetch_ms = 0 if account is None else account.record(response_bytes, now_ms)
        throttle_ms = max(request_ms, fetch_ms)
        if throttle_ms:
            if account is not None:
                account.record_unthrottled(-response_bytes, now_ms)
            over = account if fetch_ms > request_ms else self._state.request
            assert over is not None
            self._throttle(over, throttle_ms, now_ms)
        self._is_settled = True
        self._settled_ns = now_ns
        return throttle_ms

    def begins_at(self, begun_ns: int) -> None:
        """It was begun later than it seemed: what was done before was of other requests."""
        self._begun_ns = begun_ns

    def handled(self, now_ns: int) -> None:
        """The handler has returned: what comes later is waiting, not work."""
        if self._local_ns < 0:
            self._local_ns = now_ns - self._begun_ns

    def unanswered(self, now_ns: int) -> None:
        """A Produce that wants no answer. Its bytes count, its time does not."""
        self._record_exempt(now_ns - self._begun_ns, now_ns // _NS_PER_MS)

    def _request_ms(self, now_ns: int, now_ms: int) -> int:
        account = self._state.request
        self.handled(now_ns)
        if account is None:
            return 0
        throttle_ms = account.record(self._local_ns * _PERCENT_PER_NS, now_ms)
        return min(throttle_ms, self._quotas.request_throttle_ms_max)

    def _record_exempt(self, elapsed_ns: int, now_ms: int) -> None:
        if self._quotas.request.is_on:
            self._quotas.exempt.record(elapsed_ns * _PERCENT_PER_NS, now_ms)

    # --- what comes of it ----------------------------------------------------------------------------------------------------

    def settled(self, answer: Response) -> Response:
        """The answer as it is sent: the controller's throttle time, that of the bytes, or that of the processor's time, whichever
        is longest. The client waits for it."""
        if self._is_settled:
            return answer
        self._is_settled = True
        now_ns = self._clock()
        now_ms = now_ns // _NS_PER_MS
        self._settled_ns = now_ns
        if self.is_exempt or (
            self._metering == _EXEMPT_IF_IT_FAILS
            and getattr(answer, "error_code", 0) not in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        ):
            self.is_exempt = True
            self.handled(now_ns)
            self._record_exempt(self._local_ns, now_ms)
            return answer
        request_ms = self._request_ms(now_ns, now_ms)
        told_ms: int = getattr(answer, "throttle_time_ms", 0)
        throttle_ms = max(request_ms, told_ms, self.produce_throttle_ms)
        if not throttle_ms:
            return answer
        if throttle_ms > self.produce_throttle_ms:
            self._throttle(self._state.request, throttle_ms, now_ms)
        return answer if told_ms == throttle_ms else with_throttle_time(answer, throttle_ms)

    def gathered(self, last: Any) -> None:
        """The Produce requests of one read, all of one client, are to be answered. The last answer tells of the time that all
        have taken."""
        now_ns = self._clock()
        now_ms = now_ns // _NS_PER_MS
        self._settled_ns = now_ns
        self._is_settled = True
        request_ms = self._request_ms(now_ns, now_ms)
        if request_ms > last.throttle_time_ms:
            last.throttle_time_ms = request_ms
            self._throttle(self._state.request, request_ms, now_ms)

    def sent(self, now_ns: int) -> None:
        """The answer is on its way: what encoding it has taken counts for the next request."""
        if not self._is_settled:
            return
        elapsed_ns = now_ns - self._settled_ns
        now_ms = now_ns // _NS_PER_MS
        if self.is_exempt:
            self._record_exempt(elapsed_ns, now_ms)
        elif self._state.request is not None:
            self._state.request.record_unthrottled(elapsed_ns * _PERCENT_PER_NS, now_ms)

    def _throttle(self, over: Account | None, throttle_ms: int, now_ms: int) -> None:
        if self._is_passed_on:
            return
        if over is not None:
            over.throttled(throttle_ms, now_ms)
        self._state.mute(self.connection, self._timers, throttle_ms, now_ms)


class MeteredAnswer:
    """The callback of a `Pending`: settles what it completes with, and passes it on to `send`."""

    __slots__ = ("_meter", "_now_ns", "_send")

    def __init__(self, meter: Meter, send: Callable[[Any], None], now_ns: Callable[[], int]) -> None:
        self._meter = meter
        self._send = send
        self._now_ns = now_ns

    def __call__(self, answer: Response | Failed) -> None:
        if isinstance(answer, Failed):
            self._send(answer)
            return
        self._send(self._meter.settled(answer))
        self._meter.sent(self._now_ns())


def meter_of(
    quotas: NodeQuotas,
    timers: Timers,
    now_ns: Callable[[], int],
    connection: Connection,
    client_id: str | None,
    metering: int,
    begun_ns: int,
) -> Meter:
    """The meter of a request. What is known of its client is kept on the connection. `metering`: see `metering_of`."""
    known = connection.throttle
    if type(known) is not ConnectionThrottle:
        known = connection.throttle = ConnectionThrottle()
    state = known
    principal = connection.principal
    if (
        state.generation != quotas.generation()
        or (state.client_id is not client_id and state.client_id != client_id)
        # One that asks before it authenticates must not stay nobody.
        or (state.principal is not principal and state.principal != principal)
    ):
        state.look_up(quotas, principal, client_id, begun_ns // _NS_PER_MS)
    meter = Meter.__new__(Meter)
    meter._quotas = quotas  # noqa: SLF001 - see `Meter`
    meter._timers = timers  # noqa: SLF001
    meter._clock = now_ns  # noqa: SLF001
    meter._state = state  # noqa: SLF001
    meter._metering = metering  # noqa: SLF001
    meter._begun_ns = begun_ns  # noqa: SLF001
    meter._local_ns = -1  # noqa: SLF001
    meter._settled_ns = 0  # noqa: SLF001
    meter._is_settled = False  # noqa: SLF001
    meter._is_passed_on = False  # noqa: SLF001
    meter.produce_throttle_ms = 0
    meter.connection = connection
    meter.is_exempt = metering == _EXEMPT
    return meter


def with_throttle_time(answer: Response, throttle_ms: int) -> Response:
    """The same answer, with another throttle time. Not that one itself: it may be somebody else's too."""
    if not hasattr(answer, "throttle_time_ms"):
        return answer
    if isinstance(answer, TypedMessage):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return type(answer)(**{**fields, "throttle_time_ms": throttle_ms})
    told = copy(answer)
    told.throttle_time_ms = throttle_ms
    return told
