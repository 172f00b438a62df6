"""What a request takes of its client's quotas: whose account that is, what the answer tells, who is muted for how long."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.data_node import ManualTimers
from tests.support.log_builder import ManualClock
from tidelog.broker.quotas.meter import ConnectionThrottle, Meter, meter_of, metering_of
from tidelog.broker.quotas.node_quotas import NodeQuotas
from tidelog.controller.image import QuotaEntity
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.quota_config import QUOTA_KEYS
from tidelog.wire.apis import ApiKey, all_apis
from tidelog.wire.messages.alter_partition import AlterPartitionResponse
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatResponse
from tidelog.wire.messages.envelope import EnvelopeResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorResponse
from tidelog.wire.messages.topics import CreateTopicsResponse
from tidelog.wire.schema import Response, fields_of

NS = 1_000_000


class FakeConnection:
    def __init__(self) -> None:
        self.principal = ANONYMOUS
        self.throttle: object = None
        self.is_muted = False
        self.is_closed = False

    def mute(self) -> None:
        self.is_muted = True

    def unmute(self) -> None:
        self.is_muted = False


class Room:
    """One node's quotas, on a clock that a test moves, and a connection."""

    def __init__(self, **limits: float) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000_000)
        self.timers = ManualTimers(self.clock)
        self.quotas = NodeQuotas(ConfigValues(QUOTA_KEYS, {}), self.clock)
        self.connection = FakeConnection()
        self.limit({(("user", None),): limits})

    def limit(self, limits: dict[Any, dict[str, float]]) -> None:
        self.quotas.follow({QuotaEntity(parts): values for parts, values in limits.items()})

    def meter(
        self, key: int = ApiKey.FIND_COORDINATOR, *, client_id: str | None = "c", is_controller: bool = False
    ) -> Meter:
        now_ns = self.clock.monotonic_ns
        connection = cast("Any", self.connection)
        metering = metering_of(key, is_controller)
        return meter_of(self.quotas, self.timers, now_ns, connection, client_id, metering, now_ns())

    def muted_after(self, ms: int) -> bool:
        self.timers.advance(ms)
        return self.connection.is_muted

    def spend(self, meter: Meter, ms: int, answer: Response) -> Any:
        """The handler takes so long."""
        self.timers.advance(ms)
        return meter.settled(answer)


def an_answer(**fields: Any) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[], **fields)


def heartbeat(error: ErrorCode) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        throttle_time_ms=0, error_code=error, is_caught_up=False, is_fenced=False, should_shut_down=False
    )


def test_a_client_that_takes_too_much_of_the_processor_waits_a_second_at_most() -> None:
    room = Room(request_percentage=1.0)

    told = room.spend(room.meter(), 200, an_answer())

    # 20 percent-seconds in ten seconds: twice as much as it may, which would be ten seconds to wait.
    assert told.throttle_time_ms == 1_000
    assert room.connection.is_muted
    assert room.muted_after(999)
    assert not room.muted_after(1)


def test_the_time_to_send_an_answer_counts_for_the_next_request() -> None:
    room = Room(request_percentage=1.0)
    first = room.meter()
    assert room.spend(first, 90, an_answer()).throttle_time_ms == 0
    room.timers.advance(20)

    first.sent(room.clock.monotonic_ns())

    assert room.spend(room.meter(), 0, an_answer()).throttle_time_ms > 0


def test_waiting_is_not_work() -> None:
    room = Room(request_percentage=1.0)
    meter = room.meter()
    meter.handled(room.clock.monotonic_ns())

    assert room.spend(meter, 5_000, an_answer()).throttle_time_ms == 0


def test_the_longest_of_all_throttle_times_is_told() -> None:
    room = Room(request_percentage=1.0, producer_byte_rate=1_000.0)
    meter = room.meter(ApiKey.PRODUCE)
    assert meter.produced(12_000) == 2_000

    assert room.spend(meter, 200, an_answer()).throttle_time_ms == 2_000


def test_the_controllers_throttle_time_mutes_the_client_here() -> None:
    room = Room(controller_mutation_rate=1.0)

    told = room.spend(room.meter(ApiKey.CREATE_TOPICS), 0, CreateTopicsResponse(throttle_time_ms=700, topics=[]))

    assert told.throttle_time_ms == 700
    assert room.connection.is_muted


def test_an_answer_that_others_may_have_too_is_not_changed() -> None:
    room = Room(request_percentage=1.0)
    shared = an_answer()

    told = room.spend(room.meter(), 200, shared)

    assert (shared.throttle_time_ms, told.throttle_time_ms) == (0, 1_000)


@pytest.mark.parametrize(
    ("key", "answer", "is_controller"),
    [
        (ApiKey.ALTER_PARTITION, AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=[]), True),
        (ApiKey.WRITE_TXN_MARKERS, an_answer(), False),
        (ApiKey.FETCH, an_answer(), True),
        (ApiKey.VOTE, an_answer(), True),
        (ApiKey.BROKER_HEARTBEAT, heartbeat(ErrorCode.STALE_BROKER_EPOCH), True),
        (ApiKey.ENVELOPE, EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST), True),
    ],
)
def test_what_the_cluster_does_for_itself_waits_for_nothing(key: int, answer: Response, is_controller: bool) -> None:
    room = Room(request_percentage=1.0)

    told = room.spend(room.meter(key, is_controller=is_controller), 200, answer)

    assert told is answer
    assert not room.connection.is_muted
    assert room.quotas.exempt.per_second(room.quotas.now_ms()) > 0


def test_whoever_may_not_act_for_the_cluster_is_a_client_like_any_other() -> None:
    room = Room(request_percentage=1.0)
    answer = heartbeat(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    told = room.spend(room.meter(ApiKey.BROKER_HEARTBEAT, is_controller=True), 200, answer)

    assert told.throttle_time_ms == 1_000


def test_a_client_whose_request_was_passed_on_pays_the_controller_and_the_node_between_is_not_muted() -> None:
    room = Room()
    room.limit({(("user", "alice"),): {"request_percentage": 1.0}})
    meter = room.meter(ApiKey.ENVELOPE, is_controller=True)
    meter.passed_on(ApiKey.CREATE_TOPICS, Principal("User", "alice"), "inner")

    told = room.spend(meter, 200, CreateTopicsResponse(throttle_time_ms=0, topics=[]))

    assert told.throttle_time_ms == 1_000
    assert not room.connection.is_muted
    envelope = EnvelopeResponse(error_code=ErrorCode.NONE)
    assert meter.settled(envelope) is envelope
    # It is her account, and not the node's.
    again = room.meter(ApiKey.ENVELOPE, is_controller=True)
    again.passed_on(ApiKey.CREATE_TOPICS, Principal("User", "alice"), "other")
    assert room.spend(again, 0, CreateTopicsResponse(throttle_time_ms=0, topics=[])).throttle_time_ms == 1_000
    assert room.spend(room.meter(), 0, an_answer()).throttle_time_ms == 0


def test_a_batch_that_is_larger_than_one_fetch_may_be_is_never_given() -> None:
    room = Room(consumer_byte_rate=150.0)
    # Ten windows of a second: what has this size may come at once, after a silence.
    most = room.meter(ApiKey.FETCH).fetch_bytes_max()
    assert most == 1_500
    for _ in range(3):
        room.timers.advance(3_600_000)
        assert room.meter(ApiKey.FETCH).fetched(2_000) > 0

    room.timers.advance(3_600_000)
    assert room.meter(ApiKey.FETCH).fetched(most) == 0


def test_a_client_that_authenticates_later_does_not_stay_nobody() -> None:
    room = Room(producer_byte_rate=1_000.0)
    room.limit({(("user", "alice"),): {"producer_byte_rate": 1_000.0}})
    assert room.meter(ApiKey.PRODUCE).produced(20_000) == 0

    room.connection.principal = Principal("User", "alice")

    assert room.meter(ApiKey.PRODUCE).produced(20_000) == 10_000


def test_another_client_id_on_the_same_connection_has_another_account() -> None:
    room = Room()
    room.limit({(("client-id", None),): {"producer_byte_rate": 1_000.0}})
    assert room.meter(ApiKey.PRODUCE, client_id="one").produced(9_000) == 0

    assert room.meter(ApiKey.PRODUCE, client_id="two").produced(9_000) == 0
    assert room.meter(ApiKey.PRODUCE, client_id="one").produced(9_000) == 8_000


def test_a_new_limit_holds_from_the_next_request_on() -> None:
    room = Room(producer_byte_rate=1_000.0)
    assert room.meter(ApiKey.PRODUCE).produced(9_000) == 0

    room.limit({(("user", None),): {"producer_byte_rate": 100.0}})

    assert room.meter(ApiKey.PRODUCE).produced(0) == 80_000


def test_a_longer_throttle_time_of_a_muted_connection_needs_no_second_timer() -> None:
    room = Room(producer_byte_rate=1_000.0)
    room.meter(ApiKey.PRODUCE).produced(12_000)
    room.meter(ApiKey.PRODUCE).produced(12_000)

    assert room.timers.pending == 1
    assert room.muted_after(2_000)
    assert not room.muted_after(12_000)
    assert room.timers.pending == 0


def test_a_connection_that_ends_leaves_no_timer() -> None:
    room = Room(producer_byte_rate=1_000.0)
    room.meter(ApiKey.PRODUCE).produced(12_000)
    throttle = room.connection.throttle
    assert isinstance(throttle, ConnectionThrottle)

    throttle.close()

    assert room.timers.pending == 0


def test_every_version_of_every_answer_takes_a_throttle_time() -> None:
    """Where a version has no field for it, it is left out."""
    for each in all_apis():
        told = [field for field in fields_of(each.response) if field.name == "throttle_time_ms"]

        assert all(field.ignorable or field.versions.lowest == 0 for field in told), each.name
