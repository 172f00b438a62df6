"""The clients that push metrics, one by one: what each was asked for, when it was last heard of, and what it may do next.

A client has an id of its own, which this broker gives it or another one has given. What is known of it is forgotten with the
connection that it came on, after three of its intervals and at least a minute of silence, and when there are too many. At its
next request it is taken in again, and gets the same subscription id.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.telemetry.metric_subscriptions import MetricSubscriptions, WantedMetrics
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, random_uuid, uuid_to_text
from tidelog.wire.compression import Compression
from tidelog.wire.crc32c import crc32c

if TYPE_CHECKING:
    from tidelog.broker.requests.caller import Caller

INSTANCES_MAX = 16_384
EXPIRY_MS_MIN = 60_000
# Looking at all of them for those that have expired.
_SWEEP_INTERVAL_MS = 10_000
_NEVER_MS = -(2**62)
# An id that stands for the metadata topic, and that of nothing.
RESERVED = frozenset({ZERO_UUID, bytes([*[0] * 15, 1])})
_COMPRESSIONS = frozenset(int(each) for each in Compression)
_ASKS_AGAIN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


class Identity(NamedTuple):
    """What is known of whoever sends a request."""

    connection_id: int
    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int
    principal: str

    def selectors(self, instance_id: bytes) -> Mapping[str, str | None]:
        """As subscriptions select by it."""
        return {
            "client_instance_id": uuid_to_text(instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }


def identity_of(caller: Caller) -> Identity:
    """What is known of whoever asks, as far as telemetry is concerned."""
    connection = caller.connection
    software = connection.client_software
    return Identity(
        connection.connection_id,
        caller.client_id,
        software.name,
        software.version,
        caller.host,
        connection.peer_address.port,
        str(caller.principal),
    )


class ClientInstance:
    """One client."""

    __slots__ = (
        "expires_at_ms",
        "id",
        "identity",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "subscription_id",
        "version",
        "wanted",
    )

    def __init__(self, instance_id: bytes, identity: Identity, wanted: WantedMetrics, version: int) -> None:
        self.id = instance_id
        self.identity = identity
        self.wanted = wanted
        self.version = version
        self.subscription_id = _subscription_id(instance_id, wanted)
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.last_get_ms = _NEVER_MS
        self.last_push_ms = _NEVER_MS
        self.expires_at_ms = 0

    def may_get(self, now_ms: int) -> bool:
        """Whether an interval has passed since the last request of any kind; then this one counts."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.wanted.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether an interval has passed since the last push, or it was asked for its subscription since: then a client
        pushes as soon as it likes, since all of them would come at once otherwise."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.wanted.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class ClientInstances:
    """Those that this broker knows."""

    def __init__(
        self,
        subscriptions: MetricSubscriptions,
        monotonic_ms: Callable[[], int],
        random: Random,
        on_forgotten: Callable[[bytes], None],
        *,
        instances_max: int = INSTANCES_MAX,
    ) -> None:
        self._subscriptions = subscriptions
        self._monotonic_ms = monotonic_ms
        self._random = random
        self._on_forgotten = on_forgotten
        self._instances_max = instances_max
        # The one that was not heard of for longest is the first.
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._by_connection: dict[int, bytes] = {}
        self._swept_at_ms = _NEVER_MS
        self.throttled = 0
        self.unknown_subscriptions = 0

    def __len__(self) -> int:
        self._sweep(is_due=True)
        return len(self._instances)

    def get(self, instance_id: bytes, identity: Identity) -> ClientInstance | ErrorCode:
        """A client asks what to push. The zero id: a client that has none yet."""
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(self._random)
            while instance_id in self._instances:
                instance_id = random_uuid(self._random)
        instance = self._known(instance_id, identity)
        if not instance.may_get(self._monotonic_ms()) and instance.last_error not in _ASKS_AGAIN:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance

    def push(
        self,
        instance_id: bytes,
        identity: Identity,
        *,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        size_bytes: int,
        bytes_max: int,
    ) -> ClientInstance | ErrorCode:
        """A client pushes metrics: whose they are, or why they are not taken."""
        if instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._known(instance_id, identity)
        error = self._push_problem(instance, subscription_id, is_terminating, compression)
        if error is None and size_bytes > bytes_max:
            error = ErrorCode.TELEMETRY_TOO_LARGE
        instance.is_terminating = is_terminating
        instance.last_error = error or ErrorCode.NONE
        return error or instance

    def _push_problem(
        self, instance: ClientInstance, subscription_id: int, is_terminating: bool, compression: int
    ) -> ErrorCode | None:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._monotonic_ms()) and not is_terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if compression not in _COMPRESSIONS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return None

    def _known(self, instance_id: bytes, identity: Identity) -> ClientInstance:
        self._sweep()
        instance = self._instances.get(instance_id)
        version = self._subscriptions.version
        if instance is None or instance.version < version:
            identity = identity if instance is None else instance.identity
            wanted = self._subscriptions.wanted_of(identity.selectors(instance_id))
            instance = self._instances[instance_id] = ClientInstance(instance_id, identity, wanted, version)
            self._by_connection[identity.connection_id] = instance_id
            if len(self._instances) > self._instances_max:
                self._forget(next(iter(self._instances)))
        self._instances.move_to_end(instance_id)
        instance.expires_at_ms = self._monotonic_ms() + max(EXPIRY_MS_MIN, 3 * instance.wanted.interval_ms)
        return instance

    # Forgetting.

    def connection_closed(self, connection_id: int) -> None:
        instance_id = self._by_connection.get(connection_id)
        if instance_id is not None:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            connection_id = instance.identity.connection_id
            if self._by_connection.get(connection_id) == instance_id:
                del self._by_connection[connection_id]
            self._on_forgotten(instance_id)

    def _sweep(self, *, is_due: bool = False) -> None:
        now_ms = self._monotonic_ms()
        if is_due or now_ms - self._swept_at_ms >= _SWEEP_INTERVAL_MS:
            self._swept_at_ms = now_ms
            for instance_id in [each.id for each in self._instances.values() if each.expires_at_ms <= now_ms]:
                self._forget(instance_id)


def _subscription_id(instance_id: bytes, wanted: WantedMetrics) -> int:
    """Another one for every client and for all that it may be asked for."""
    said = f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}".encode()
    halves = int.from_bytes(instance_id[:8]) ^ int.from_bytes(instance_id[8:])
    mixed = crc32c(said) ^ (halves >> 32) ^ (halves & 0xFFFF_FFFF)
    return mixed - (1 << 32) if mixed >> 31 else mixed
