"""Each check of a request for telemetry, in Kafka's order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidelog.broker.telemetry.client_instances import RESERVED, ClientInstance, ClientInstances, Identity
from tidelog.broker.telemetry.metric_subscriptions import MetricSubscriptions
from tidelog.controller.image import ConfigResource
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID

CLIENT_METRICS = 16
ID = bytes(range(16))
SELF = Identity(7, "billing", "apache-kafka-java", "4.3.1", "10.0.0.1", 4711, "User:alice")
INTERVAL_MS = 1000


class World:
    """Instances on a clock that is set by hand, with one subscription to everything."""

    def __init__(self, instances_max: int = 10) -> None:
        self.now_ms = 1_000_000
        self.subscriptions = MetricSubscriptions()
        self.forgotten: list[bytes] = []
        self.instances = ClientInstances(
            self.subscriptions, lambda: self.now_ms, Random(1), self.forgotten.append, instances_max=instances_max
        )
        self.subscribe(metrics="*", interval_ms=INTERVAL_MS)

    def subscribe(self, name: str = "all", **own: object) -> None:
        values = {key.replace("_", "."): str(value) for key, value in own.items()}
        self.subscriptions.follow({ConfigResource(CLIENT_METRICS, name): values})

    def get(self, instance_id: bytes = ID, identity: Identity = SELF) -> ClientInstance | ErrorCode:
        return self.instances.get(instance_id, identity)

    def known(self, instance_id: bytes = ID, identity: Identity = SELF) -> ClientInstance:
        found = self.get(instance_id, identity)
        assert isinstance(found, ClientInstance)
        return found

    def push(self, subscription_id: int, **changed: Any) -> ErrorCode:
        given: dict[str, Any] = {
            "is_terminating": False, "compression": 0, "size_bytes": 10, "bytes_max": 100, **changed,
        }  # fmt: skip
        instance_id, identity = given.pop("instance_id", ID), given.pop("identity", SELF)
        found = self.instances.push(instance_id, identity, subscription_id=subscription_id, **given)
        return ErrorCode.NONE if isinstance(found, ClientInstance) else found


@pytest.fixture
def world() -> World:
    return World()


def test_a_client_without_an_id_gets_one(world: World) -> None:
    first, second = world.known(ZERO_UUID), world.known(ZERO_UUID)

    assert first.id not in RESERVED
    assert first.id != second.id
    assert first.wanted.metrics == ("*",)
    assert first.wanted.interval_ms == INTERVAL_MS


def test_asking_again_before_the_interval_is_too_early(world: World) -> None:
    world.known()
    assert world.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += INTERVAL_MS - 1
    assert world.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += 1

    assert isinstance(world.get(), ClientInstance)
    assert world.instances.throttled == 2


def test_a_push_counts_as_a_request_of_the_client(world: World) -> None:
    known = world.known()
    world.now_ms += 500
    assert world.push(known.subscription_id) is ErrorCode.NONE
    world.now_ms += INTERVAL_MS - 1
    assert world.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_after_a_changed_subscription_a_client_may_ask_at_once(world: World) -> None:
    before = world.known()
    world.subscribe(metrics="org.apache.kafka.producer.", interval_ms=500)
    world.now_ms += 1

    assert world.push(before.subscription_id) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    after = world.known()
    assert after.subscription_id != before.subscription_id
    assert after.wanted == (("org.apache.kafka.producer.",), 500)
    assert world.instances.unknown_subscriptions == 1


@pytest.mark.parametrize("refused", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_whoever_was_told_that_something_does_not_fit_may_ask_at_once(world: World, refused: ErrorCode) -> None:
    known = world.known()
    if refused is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
        assert world.push(known.subscription_id + 1) is refused
    else:
        assert world.push(known.subscription_id, compression=5) is refused

    assert isinstance(world.get(), ClientInstance)


def test_the_first_push_may_come_at_any_time_and_the_next_one_after_the_interval(world: World) -> None:
    known = world.known()
    world.now_ms += 1
    assert world.push(known.subscription_id) is ErrorCode.NONE
    world.now_ms += INTERVAL_MS - 1
    assert world.push(known.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += 1
    assert world.push(known.subscription_id) is ErrorCode.NONE


def test_a_client_that_another_broker_knows_may_push_here_at_once(world: World) -> None:
    elsewhere = World().known()

    assert world.push(elsewhere.subscription_id) is ErrorCode.NONE


@pytest.mark.parametrize("instance_id", sorted(RESERVED))
def test_nobody_has_a_reserved_id(world: World, instance_id: bytes) -> None:
    assert world.push(0, instance_id=instance_id) is ErrorCode.INVALID_REQUEST


def test_a_terminating_client_may_push_early_and_then_no_more(world: World) -> None:
    known = world.known()
    assert world.push(known.subscription_id) is ErrorCode.NONE
    assert world.push(known.subscription_id, is_terminating=True) is ErrorCode.NONE
    assert world.push(known.subscription_id) is ErrorCode.INVALID_REQUEST


def test_the_checks_come_in_kafkas_order(world: World) -> None:
    known = world.known()
    wrong = {"subscription_id": known.subscription_id + 1, "compression": 9, "size_bytes": 101}
    assert world.push(**wrong) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.push(**wrong) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms += INTERVAL_MS
    assert world.push(**{**wrong, "subscription_id": known.subscription_id}) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    world.now_ms += INTERVAL_MS
    assert world.push(known.subscription_id, size_bytes=101) is ErrorCode.TELEMETRY_TOO_LARGE
    world.now_ms += INTERVAL_MS
    assert world.push(known.subscription_id, size_bytes=100, compression=4) is ErrorCode.NONE


def test_a_client_is_forgotten_with_its_connection(world: World) -> None:
    world.known()
    world.instances.connection_closed(8)
    assert len(world.instances) == 1
    world.instances.connection_closed(SELF.connection_id)

    assert len(world.instances) == 0
    assert world.forgotten == [ID]


def test_a_client_is_forgotten_after_three_intervals_and_at_least_a_minute(world: World) -> None:
    world.known()
    world.now_ms += 59_999
    assert len(world.instances) == 1
    world.now_ms += 1
    assert len(world.instances) == 0

    world.subscribe(metrics="*", interval_ms=100_000)
    world.known()
    world.now_ms += 299_999
    assert len(world.instances) == 1


def test_there_are_no_more_than_the_limit_and_the_one_not_heard_of_for_longest_goes() -> None:
    world = World(instances_max=2)
    first, second, third = (bytes([each] * 16) for each in (2, 3, 4))
    for number, each in enumerate((first, second)):
        world.known(each, SELF._replace(connection_id=number))
    world.now_ms += INTERVAL_MS
    world.known(first)
    world.known(third, SELF._replace(connection_id=9))

    assert world.forgotten == [second]
    assert len(world.instances) == 2


def test_one_connection_with_two_clients_forgets_the_last_one_and_not_another(world: World) -> None:
    other = bytes([9] * 16)
    world.known()
    world.known(other)
    world.instances.connection_closed(SELF.connection_id)

    assert world.forgotten == [other]


@pytest.mark.parametrize(
    ("match", "is_asked"),
    [
        ("", True),
        ("client_id=billing", True),
        ("client_id=bill", False),
        ("client_id=b.*,client_software_name=.*java", True),
        ("client_id=b.*,client_software_name=.*rdkafka.*", False),
        ("client_software_version=4[.]3.*", True),
        ("client_source_address=10[.].*,client_source_port=47..", True),
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
    ],
)
def test_a_subscription_is_for_whoever_matches_all_of_it(world: World, match: str, is_asked: bool) -> None:
    world.subscribe(metrics="a,b", interval_ms=500, match=match)

    assert world.known().wanted == ((("a", "b"), 500) if is_asked else ((), 300_000))


def test_one_that_has_no_client_id_matches_no_pattern_of_it(world: World) -> None:
    world.subscribe(metrics="a", match="client_id=.*")

    assert world.known(identity=SELF._replace(client_id=None)).wanted.metrics == ()


def test_several_subscriptions_are_one() -> None:
    subscriptions = MetricSubscriptions()
    configs = {
        ConfigResource(CLIENT_METRICS, "one"): {"metrics": "b,a", "interval.ms": "7000"},
        ConfigResource(CLIENT_METRICS, "two"): {"metrics": "c,a", "interval.ms": "5000"},
        ConfigResource(2, "topic"): {"retention.ms": "1"},
        ConfigResource(CLIENT_METRICS, "broken"): {"interval.ms": "never"},
    }
    subscriptions.follow(configs)
    wanted = subscriptions.wanted_of(SELF.selectors(ID))
    version = subscriptions.version
    subscriptions.follow(dict(configs))

    assert wanted == (("a", "b", "c"), 5000)
    assert subscriptions.version == version
    subscriptions.follow({})
    assert subscriptions.version == version + 1
    assert subscriptions.wanted_of(SELF.selectors(ID)) == ((), 300_000)
