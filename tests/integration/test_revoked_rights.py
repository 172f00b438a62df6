"""Rights that are taken away from a client in the middle of what it does, and what was never its own, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.access_table import ADMIN, ALICE, BROKER, TOPIC, Right, World, build, creation, set_acls, told, topic
from tests.support.principals import GuardedNode, name_peers
from tests.support.raw_client import RawClient
from tidelog.broker.cluster import envelopes
from tidelog.controller.controller import ControllerContext
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import Principal
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.envelope import EnvelopeResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.records import Record, build_batch

OTHER = "shipments"
FETCH_VERSION = 12
LONG_MS = 25_000
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with pytest.MonkeyPatch.context() as patch:
        name_peers(patch)
        with GuardedNode(tmp_path_factory.mktemp("node")) as guarded:
            made = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in (TOPIC, OTHER)]
            request = build(api(ApiKey.CREATE_TOPICS).request, {"topics": made, "timeout_ms": 30_000})
            answer = guarded.ask(ADMIN, BROKER, request, 7)
            assert (told(answer, "topics.0.error_code"), told(answer, "topics.1.error_code")) == (0, 0)
            yield guarded


def reads(*topics: str) -> list[Right]:
    return [topic(AclOperation.READ, name) for name in topics]


def give(node: GuardedNode, rights: list[Right]) -> None:
    set_acls(node.ask, World(), [creation(right) for right in rights])


def written(node: GuardedNode, name: str, partition: int) -> None:
    """One record more, by somebody who may."""
    batch = build_batch([Record(0, 1_704_067_200_000, None, b"secret", ())])
    code, _ = node.client(ADMIN, BROKER).produce(name, partition, batch)
    assert code == ErrorCode.NONE


def end_of(node: GuardedNode, name: str, partition: int) -> int:
    asked = {"name": name, "partitions": [{"partition_index": partition, "timestamp": -1}]}
    request = build(api(ApiKey.LIST_OFFSETS).request, {"replica_id": -1, "topics": [asked]})
    offset = told(node.ask(ADMIN, BROKER, request, 6), "topics.0.partitions.0.offset")
    assert isinstance(offset, int)
    return offset


def fetch(
    places: dict[tuple[str, int], int], *, max_wait_ms: int = 0, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    """From each place's offset; epoch -1 is without a session, 0 asks for one."""
    topics = [
        {
            "topic": name,
            "partitions": [
                {"partition": index, "fetch_offset": offset, "partition_max_bytes": 100_000}
                for (other, index), offset in places.items()
                if other == name
            ],
        }
        for name in dict.fromkeys(name for name, _ in places)
    ]
    given = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 1_000_000, "topics": topics}
    return build(FetchRequest, {**given, "session_id": session[0], "session_epoch": session[1]})


def answered(response: FetchResponse) -> dict[tuple[str, int], tuple[int, int]]:
    """Of each place that the answer names: the error, and how many bytes."""
    return {
        (each.topic, found.partition_index): (found.error_code, _size(found.records))
        for each in response.responses
        for found in each.partitions
    }


def _size(records: object) -> int:
    assert records is None or isinstance(records, bytes | memoryview)
    return len(records or b"")


@pytest.fixture
def alice(node: GuardedNode) -> Iterator[RawClient]:
    with node.new_client(ALICE, BROKER) as client:
        yield client


def test_a_fetch_that_waits_when_the_right_goes_is_told_so_and_given_nothing(
    node: GuardedNode, alice: RawClient
) -> None:
    give(node, reads(TOPIC))
    sent = alice.send(fetch({(TOPIC, 0): end_of(node, TOPIC, 0)}, max_wait_ms=LONG_MS), FETCH_VERSION)
    give(node, [])
    written(node, TOPIC, 0)

    assert answered(alice.receive(sent, FetchResponse)) == {(TOPIC, 0): (REFUSED, 0)}


def test_a_session_goes_on_with_what_may_still_be_read(node: GuardedNode, alice: RawClient) -> None:
    places = {(name, index): end_of(node, name, index) for name in (TOPIC, OTHER) for index in (0, 1)}
    give(node, reads(TOPIC, OTHER))
    opened = alice.call(fetch(places, session=(0, 0)), FetchResponse, FETCH_VERSION)
    assert set(answered(opened).values()) == {(0, 0)}
    assert opened.session_id

    give(node, reads(OTHER))
    for name, index in places:
        written(node, name, index)
    # Nothing is named: the session knows.
    first = alice.call(fetch({}, session=(opened.session_id, 1)), FetchResponse, FETCH_VERSION)
    # What has been read is asked for further on; what was refused is not named again.
    onward = {place: offset + 1 for place, offset in places.items() if place[0] == OTHER}
    second = alice.call(fetch(onward, session=(opened.session_id, 2)), FetchResponse, FETCH_VERSION)

    codes = {place: code for place, (code, _) in answered(first).items()}
    assert codes == {place: REFUSED if place[0] == TOPIC else 0 for place in places}
    assert all((count > 0) == (place[0] == OTHER) for place, (_, count) in answered(first).items())
    # The refusal is told again and again, as long as it holds: it is no state of the partition that could be left out.
    assert {place for place, (code, _) in answered(second).items() if code} == {(TOPIC, 0), (TOPIC, 1)}
    give(node, reads(TOPIC, OTHER))
    third = alice.call(fetch({}, session=(opened.session_id, 3)), FetchResponse, FETCH_VERSION)
    assert {place: count > 0 for place, (_, count) in answered(third).items()} == {(TOPIC, 0): True, (TOPIC, 1): True}


def test_an_envelope_to_a_broker_ends_the_connection_of_whoever_sends_it(node: GuardedNode, alice: RawClient) -> None:
    give(node, [])
    context = ControllerContext(Principal("User", ADMIN), "inner", "127.0.0.1", api_version=12)
    envelope = envelopes.wrap(build(MetadataRequest, {"topics": []}), context)

    with node.new_client(ADMIN, BROKER) as admin:
        for client in (alice, admin):
            with pytest.raises(ConnectionError):
                client.call(envelope, EnvelopeResponse, 0)
