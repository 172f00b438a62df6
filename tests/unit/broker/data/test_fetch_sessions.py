"""Fetch sessions: what a client has to name, what answers leave out, and which session has to go for another."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.support.appends import produced
from tests.support.data_node import OTHER, DataNode
from tests.support.log_builder import LogBuilder, ManualClock
from tidelog.broker.data import fetch_sessions
from tidelog.broker.data.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    FetchSessions,
    entries_of,
    next_epoch,
)
from tidelog.broker.handlers.fetch import fetch
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

BATCHES = LogBuilder()
LATEST = 18
INT32_MAX = 2**31 - 1


def topic_id(node: DataNode, topic: str) -> bytes:
    return node.image.topic_ids.get(TopicName(topic), ZERO_UUID)


def request_for(
    node: DataNode,
    partitions: dict[int, int],
    *,
    session: tuple[int, int] = (0, 0),
    forget: tuple[int, ...] = (),
    topic: str = "orders",
    **options: Any,
) -> FetchRequest:
    """A request for partitions, each from an offset."""
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, **options},
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id(node, topic),
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                    for index, offset in partitions.items()
                ],
            )
        ]
        if partitions
        else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=topic_id(node, topic), partitions=list(forget))]
        if forget
        else [],
    )


def ask(node: DataNode, request: FetchRequest, version: int = LATEST) -> FetchResponse:
    response = node.answered(fetch, request, version)
    assert isinstance(response, FetchResponse)
    return response


def indexes(response: FetchResponse) -> list[int]:
    return [each.partition_index for topic in response.responses for each in topic.partitions]


@pytest.fixture
def node() -> DataNode:
    node = DataNode()
    node.create_topic("orders", partitions=4)
    return node


def append(node: DataNode, index: int) -> None:
    produced(node.partition("orders", index), BATCHES.batch("a"))


# A session's life


def test_a_client_names_its_partitions_once_and_hears_of_those_that_changed(node: DataNode) -> None:
    first = ask(node, request_for(node, {0: 0, 1: 0, 2: 0}))
    session = first.session_id
    assert session > 0
    assert indexes(first) == [0, 1, 2]

    append(node, 1)
    second = ask(node, request_for(node, {}, session=(session, 1)))
    third = ask(node, request_for(node, {1: 1}, session=(session, 2)))

    assert indexes(second) == [1]
    assert indexes(third) == []
    assert second.session_id == third.session_id == session


def test_partitions_are_added_and_forgotten(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0, 1: 0})).session_id

    added = ask(node, request_for(node, {3: 0}, session=(session, 1), forget=(1,)))
    append(node, 1)
    append(node, 3)
    after = ask(node, request_for(node, {}, session=(session, 2)))

    assert indexes(added) == [3]
    assert indexes(after) == [3]


def test_a_session_without_partitions_is_closed(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0})).session_id

    last = ask(node, request_for(node, {}, session=(session, 1), forget=(0,)))

    assert (last.error_code, last.session_id) == (0, NO_SESSION)
    assert len(node.fetch_sessions) == 0


def test_a_full_request_closes_the_session_that_it_names(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0})).session_id

    anew = ask(node, request_for(node, {1: 0}, session=(session, 0)))
    assert anew.session_id not in (NO_SESSION, session)
    closed = ask(node, request_for(node, {1: 0}, session=(anew.session_id, -1)))

    assert closed.session_id == NO_SESSION
    assert indexes(closed) == [1]
    assert len(node.fetch_sessions) == 0


def test_a_request_that_does_not_fit_its_session(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0})).session_id

    unknown = ask(node, request_for(node, {}, session=(session + 1, 1)))
    wrong_epoch = ask(node, request_for(node, {}, session=(session, 2)))
    by_name = ask(node, request_for(node, {}, session=(session, 1)), version=12)
    right = ask(node, request_for(node, {}, session=(session, 1)))

    assert [each.error_code for each in (unknown, wrong_epoch, by_name, right)] == [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        0,
    ]
    assert [each.session_id for each in (unknown, wrong_epoch, by_name)] == [NO_SESSION] * 3


def test_versions_without_sessions_get_none(node: DataNode) -> None:
    response = ask(
        node,
        FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            forgotten_topics_data=[],
            topics=request_for(node, {0: 0}).topics,
        ),
        version=6,
    )

    assert response.session_id == NO_SESSION
    assert len(node.fetch_sessions) == 0


def test_a_request_that_overtakes_one_that_waits_leaves_it_only_an_error(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0})).session_id
    parked = node.ask(fetch, request_for(node, {}, session=(session, 1), max_wait_ms=500), LATEST)
    assert isinstance(parked, Pending)
    assert not parked.is_complete

    ask(node, request_for(node, {}, session=(session, 2)))
    append(node, 0)

    assert parked.value.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert parked.value.session_id == session
    assert parked.value.responses == []


def test_after_the_largest_epoch_comes_one() -> None:
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, INT32_MAX)] == [-1, 1, 2, 1]


# What an answer carries


def test_an_error_is_told_every_time_and_its_end_too(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 5, 1: 0})).session_id

    errors = [ask(node, request_for(node, {}, session=(session, epoch))) for epoch in (1, 2)]
    gone = ask(node, request_for(node, {0: 0}, session=(session, 3)))
    quiet = ask(node, request_for(node, {}, session=(session, 4)))

    assert [indexes(each) for each in errors] == [[0], [0]]
    assert indexes(gone) == [0]
    assert gone.responses[0].partitions[0].error_code == 0
    assert indexes(quiet) == []


def test_a_moved_log_start_is_told(node: DataNode) -> None:
    append(node, 0)
    session = ask(node, request_for(node, {0: 1, 1: 0})).session_id
    node.partition("orders", 0).delete_records(1)

    response = ask(node, request_for(node, {}, session=(session, 1)))

    assert indexes(response) == [0]
    assert response.responses[0].partitions[0].log_start_offset == 1


def test_who_has_just_had_records_comes_last_next_time(node: DataNode) -> None:
    for index in range(3):
        append(node, index)
    session = ask(node, request_for(node, {0: 0, 1: 0, 2: 0}, max_bytes=1)).session_id

    turns = [indexes(ask(node, request_for(node, {}, session=(session, epoch), max_bytes=1))) for epoch in (1, 2, 3)]

    assert turns == [[0], [1], [2]]


def test_a_topic_that_comes_into_being_is_found_by_a_session_that_knows_its_id(node: DataNode) -> None:
    new_id = bytes([9]) * 16
    request = request_for(node, {0: 0})
    request.topics[0].topic_id = new_id
    first = ask(node, request)
    assert first.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    node.create_topic("late", topic_id=new_id)
    second = ask(node, request_for(node, {}, session=(first.session_id, 1)))

    assert [topic.topic_id for topic in second.responses] == [new_id]
    assert second.responses[0].partitions[0].error_code == 0


def test_a_session_that_waits_is_woken_by_any_of_its_partitions(node: DataNode) -> None:
    session = ask(node, request_for(node, {0: 0, 1: 0, 2: 0, 3: 0})).session_id
    parked = node.ask(fetch, request_for(node, {}, session=(session, 1), max_wait_ms=500), LATEST)

    append(node, 2)

    assert indexes(parked.value) == [2]


def test_of_a_partition_that_is_named_twice_the_last_counts(node: DataNode) -> None:
    append(node, 0)
    request = request_for(node, {0: 0})
    request.topics[0].partitions.append(FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=10))

    entries = entries_of(request, uses_topic_ids=True)

    assert [entry.asked.fetch_offset for entry in entries] == [1]


# Room


class Cache:
    """Sessions without a broker around them."""

    def __init__(self, slots: int) -> None:
        self.clock = ManualClock(0)
        self.sessions = FetchSessions(slots, self.clock, Random(1))

    def begin(self, size: int, *, is_follower: bool = False) -> int:
        partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(size)]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=0,
            topics=[FetchTopic(topic="t", topic_id=ZERO_UUID, partitions=partitions)],
            forgotten_topics_data=[],
        )
        assert self.sessions.session_of(request, uses_topic_ids=False) is None
        entries = entries_of(request, uses_topic_ids=False)
        return self.sessions.begin(entries, is_privileged=is_follower, uses_topic_ids=False)

    def use(self, session_id: int, *, add: int = 0) -> None:
        session = self.sessions.get(session_id)
        assert session is not None
        size = len(session.entries)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=session.epoch,
            topics=[
                FetchTopic(
                    topic="t",
                    topic_id=ZERO_UUID,
                    partitions=[
                        FetchPartition(partition=size + index, fetch_offset=0, partition_max_bytes=1)
                        for index in range(add)
                    ],
                )
            ],
            forgotten_topics_data=[],
        )
        assert self.sessions.session_of(request, uses_topic_ids=False) is session


def test_a_young_session_is_not_evicted_for_another_consumer() -> None:
    cache = Cache(2)
    first, second = cache.begin(1), cache.begin(1)

    assert cache.begin(100) == NO_SESSION
    assert cache.sessions.get(first) is not None
    assert cache.sessions.get(second) is not None
    assert cache.sessions.evictions == 0


def test_a_silent_session_goes_first() -> None:
    cache = Cache(2)
    silent, used = cache.begin(9), cache.begin(1)
    cache.clock.advance(EVICTION_MS)
    cache.use(used)
    cache.clock.advance(1)

    assert cache.begin(1) != NO_SESSION
    assert cache.sessions.get(silent) is None
    assert cache.sessions.get(used) is not None
    assert cache.sessions.evictions == 1


def test_an_old_session_goes_for_one_that_is_larger() -> None:
    cache = Cache(2)
    small, large = cache.begin(2), cache.begin(5)
    cache.clock.advance(EVICTION_MS + 1)
    for session in (small, large):
        cache.use(session)

    assert cache.begin(1) == NO_SESSION
    assert cache.begin(3) != NO_SESSION
    assert cache.sessions.get(small) is None
    # Of the two that are left one is young; the other one is larger.
    assert cache.begin(4) == NO_SESSION


def test_a_session_that_has_grown_is_worth_what_it_holds_now() -> None:
    cache = Cache(1)
    session = cache.begin(1)
    cache.clock.advance(EVICTION_MS + 1)
    cache.use(session, add=4)

    assert cache.begin(5) == NO_SESSION
    assert cache.begin(6) != NO_SESSION


def test_a_follower_takes_a_consumers_place_and_never_the_other_way_round() -> None:
    cache = Cache(1)
    consumer = cache.begin(50)
    follower = cache.begin(1, is_follower=True)
    assert follower != NO_SESSION
    assert cache.sessions.get(consumer) is None

    assert cache.begin(9, is_follower=True) == NO_SESSION
    cache.clock.advance(EVICTION_MS + 1)
    cache.use(follower)
    assert cache.begin(100) == NO_SESSION
    assert cache.begin(9, is_follower=True) != NO_SESSION


def test_without_slots_there_are_no_sessions() -> None:
    assert Cache(0).begin(1) == NO_SESSION


def test_who_names_too_many_partitions_gets_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", 3)
    node = DataNode()
    node.create_topic("orders", partitions=4)

    too_many = ask(node, request_for(node, dict.fromkeys(range(4), 0)))
    session = ask(node, request_for(node, dict.fromkeys(range(3), 0))).session_id
    grown = ask(node, request_for(node, {3: 0}, session=(session, 1)))

    assert (too_many.error_code, too_many.session_id) == (0, NO_SESSION)
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(node.fetch_sessions) == 0


def test_a_session_that_changes_its_size_all_the_time_takes_no_more_memory() -> None:
    cache = Cache(3)
    session = cache.begin(1)
    cache.clock.advance(EVICTION_MS + 1)
    for _ in range(1000):
        cache.use(session, add=1)

    assert len(cache.sessions._evictable_by_all) < 100
    assert cache.sessions.cached_partitions == 1001


def test_a_follower_gets_a_session_of_its_own_kind() -> None:
    node = DataNode()
    node.create_topic("orders", replicas=(1, OTHER))

    response = ask(node, request_for(node, {0: 0}, replica_state=ReplicaState(replica_id=OTHER, replica_epoch=1)))

    session = node.fetch_sessions.get(response.session_id)
    assert session is not None
    assert session.is_privileged
