"""The state of share partitions: what is asked in which epoch, what is written, and what is done about it as time passes."""

from __future__ import annotations

import pytest

from tests.support.share_states import (
    ACKNOWLEDGED,
    ARCHIVED,
    AUDIT,
    AVAILABLE,
    ORDERS,
    START_MS,
    ShareStateDriver,
    SomeTopics,
    batch,
    key,
)
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state_settings import ShareStateSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.wire.messages.internal.share_state_records import ShareSnapshotValue, ShareUpdateValue

COLD_MS = ShareStateSettings().cold_snapshot_interval_ms


@pytest.fixture
def states() -> ShareStateDriver:
    return ShareStateDriver()


def test_a_state_begins_where_it_is_told_to_or_nowhere_yet(states: ShareStateDriver) -> None:
    states.initialise(key(0))
    states.initialise(key(1), start_offset=40)

    first, second = (record.value for record in states.records)
    assert isinstance(first, ShareSnapshotValue)
    assert isinstance(second, ShareSnapshotValue)
    assert (first.snapshot_epoch, first.state_epoch, first.leader_epoch) == (0, 1, 0)
    assert (first.start_offset, first.delivery_complete_count) == (-1, -1)
    assert (second.start_offset, second.delivery_complete_count) == (40, 0)
    assert first.create_timestamp == first.write_timestamp == START_MS


def test_an_update_holds_what_was_written_and_the_state_all_of_it(states: ShareStateDriver) -> None:
    states.initialise(key(), start_offset=0)
    states.write(key(), batch(0, 4, AVAILABLE), complete=0)
    states.write(key(), batch(0, 1), start_offset=2, complete=0)

    last = states.records[-1].value
    assert isinstance(last, ShareUpdateValue)
    assert (last.snapshot_epoch, last.leader_epoch, last.start_offset) == (0, 0, 2)
    # As in Kafka an update has no offsets below the start that it sets.
    assert last.state_batches == []
    assert states.batches(key()) == (batch(2, 4, AVAILABLE),)


def test_after_so_many_updates_a_snapshot_takes_their_place() -> None:
    states = ShareStateDriver(ShareStateSettings(updates_per_snapshot=2))
    states.initialise(key(), start_offset=0)
    for offset in range(4):
        states.write(key(), batch(2 * offset, 2 * offset), complete=offset)

    kinds = [type(record.value) for record in states.records]
    assert kinds == [ShareSnapshotValue, ShareUpdateValue, ShareUpdateValue, ShareSnapshotValue, ShareUpdateValue]
    snapshot = states.records[3].value
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.snapshot_epoch, snapshot.delivery_complete_count) == (1, 2)
    assert [each.first_offset for each in snapshot.state_batches] == [0, 2, 4]


def test_nothing_is_read_or_written_before_the_beginning(states: ShareStateDriver) -> None:
    assert states.read(key()).error_code == ErrorCode.INVALID_REQUEST
    assert states.write(key(), batch(0, 1)) is ErrorCode.INVALID_REQUEST
    assert states.delete(key()) is ErrorCode.NONE
    assert states.log == []


def test_a_leader_that_reads_fences_those_before_it(states: ShareStateDriver) -> None:
    states.initialise(key(), start_offset=0)
    states.read(key(), leader_epoch=3)
    states.read(key(), leader_epoch=5)

    assert states.write(key(), batch(0, 0), leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert states.read(key(), leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert states.restarted().write(key(), batch(0, 0), leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert states.write(key(), batch(0, 0), leader_epoch=5) is ErrorCode.NONE


def test_the_same_leader_reads_again_without_a_record(states: ShareStateDriver) -> None:
    states.initialise(key(), start_offset=0)
    states.read(key(), leader_epoch=3)
    written = len(states.log)

    states.read(key(), leader_epoch=3)
    states.read(key(), leader_epoch=-1)

    assert len(states.log) == written


def test_a_new_beginning_fences_writers_of_the_old_state(states: ShareStateDriver) -> None:
    states.initialise(key(), state_epoch=4, start_offset=0)
    states.write(key(), batch(0, 3), state_epoch=4)
    states.initialise(key(), state_epoch=6, start_offset=2)

    assert states.write(key(), batch(0, 3), state_epoch=4) is ErrorCode.FENCED_STATE_EPOCH
    assert states.initialise(key(), state_epoch=5) is ErrorCode.FENCED_STATE_EPOCH
    read = states.read(key())
    assert (read.state_epoch, read.start_offset, read.state_batches) == (6, 2, [])


@pytest.mark.parametrize(
    ("where", "error"),
    [
        (key(-1), ErrorCode.INVALID_REQUEST),
        (key(4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (key(topic=TopicId(bytes(16))), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_that_there_is_not_has_no_state(
    states: ShareStateDriver, where: SharePartitionKey, error: ErrorCode
) -> None:
    assert states.initialise(where) is error
    assert states.delete(where) is error
    assert states.shard.summary(where).error_code == error


def test_a_summary_says_where_a_group_is_or_that_it_is_nowhere(states: ShareStateDriver) -> None:
    states.initialise(key(0), state_epoch=4, start_offset=7)
    states.read(key(0), leader_epoch=2)
    states.write(key(0), batch(8, 9), leader_epoch=2, state_epoch=4, complete=2)

    known, nothing = states.shard.summary(key(0)), states.shard.summary(key(1))

    assert (known.state_epoch, known.leader_epoch, known.start_offset, known.delivery_complete_count) == (4, 2, 7, 2)
    assert (nothing.state_epoch, nothing.leader_epoch) == (0, 0)
    assert (nothing.start_offset, nothing.delivery_complete_count) == (-1, -1)


def test_a_tombstone_ends_a_state_and_its_epochs(states: ShareStateDriver) -> None:
    states.initialise(key(), state_epoch=9, start_offset=5)
    states.delete(key())

    for after in (states, states.restarted()):
        assert after.shard.state_of(key()) is None
        assert after.initialise(key(), state_epoch=1) is ErrorCode.NONE


def test_records_before_the_oldest_snapshot_are_not_needed(states: ShareStateDriver) -> None:
    needed = [states.shard.needed_from]
    states.initialise(key(0))
    states.initialise(key(1))
    states.write(key(0), batch(0, 1))
    needed.append(states.shard.needed_from)
    states.initialise(key(0), state_epoch=2)
    needed.append(states.shard.needed_from)
    states.delete(key(1))
    needed.append(states.shard.needed_from)
    states.delete(key(0))
    needed.append(states.shard.needed_from)

    assert needed == [None, 0, 1, 3, 5]


def test_a_cold_state_is_written_again_where_others_are_at_work(states: ShareStateDriver) -> None:
    states.initialise(key(0))
    states.write(key(0), batch(3, 4))
    states.advance(COLD_MS // 2)
    states.initialise(key(1))
    states.advance(COLD_MS // 2)

    assert states.shard.needed_from == 2
    rewritten = states.records[-1].value
    assert isinstance(rewritten, ShareSnapshotValue)
    assert (rewritten.snapshot_epoch, rewritten.create_timestamp) == (1, START_MS)
    assert rewritten.write_timestamp == START_MS + COLD_MS
    assert states.batches(key(0)) == (batch(3, 4),)


def test_where_nobody_writes_cold_states_are_left_alone(states: ShareStateDriver) -> None:
    states.initialise(key(0))
    states.initialise(key(1))
    states.advance(COLD_MS)
    written = len(states.log)

    for _ in range(5):
        states.advance(COLD_MS)

    assert len(states.log) == written


def test_many_cold_states_are_written_a_batch_at_a_time(states: ShareStateDriver) -> None:
    for number in range(2000):
        states.initialise(key(group=f"group-{number}"))
    states.advance(COLD_MS)
    first = len(states.log)
    for _ in range(20):
        states.advance(1)

    assert 2000 < first < 3000
    assert len(states.log) == 4000


def test_the_states_of_a_deleted_topic_go_with_it(states: ShareStateDriver) -> None:
    states.initialise(key(0))
    states.initialise(key(1))
    states.initialise(key(0, topic=AUDIT))
    states.topics = SomeTopics({AUDIT: 2})

    states.carry_out(states.shard.topics_removed({ORDERS}, states.now_ms))

    assert states.shard.state_of(key(0)) is None
    assert states.shard.state_of(key(1)) is None
    assert states.shard.state_of(key(0, topic=AUDIT)) is not None


def test_tombstones_that_could_not_be_written_are_tried_again(states: ShareStateDriver) -> None:
    states.initialise(key(0))
    states.append_error = ErrorCode.NOT_COORDINATOR
    states.carry_out(states.shard.topics_removed({ORDERS}, states.now_ms))
    assert states.shard.state_of(key(0)) is not None

    states.append_error = ErrorCode.NONE
    states.advance(500)

    assert states.shard.state_of(key(0)) is None


def test_an_update_whose_snapshot_is_gone_is_all_that_is_known(states: ShareStateDriver) -> None:
    states.initialise(key(), start_offset=0)
    states.write(key(), batch(3, 4, ARCHIVED), start_offset=3, complete=2)
    only_update = ShareStateDriver(log=[states.log[1]])

    state = only_update.shard.state_of(key())

    assert state is not None
    assert (state.state_epoch, state.start_offset, state.batches) == (0, 3, (batch(3, 4, ARCHIVED),))


def test_a_keys_text_is_read_from_its_end() -> None:
    written = key(3, group="a:b:c")

    assert SharePartitionKey.of_text(str(written)) == written


@pytest.mark.parametrize("text", ["", "a", "a:b", ":AAAAAAAAAAAAAAAAAAAAAQ:0", "a:short:0", f"{key()}x", f"{key()} "])
def test_what_is_no_key_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SharePartitionKey.of_text(text)


def test_states_of_acknowledged_records_survive_a_restart(states: ShareStateDriver) -> None:
    states.initialise(key(), start_offset=0)
    states.write(key(), batch(0, 9, AVAILABLE), batch(10, 12, ACKNOWLEDGED))
    states.write(key(), batch(2, 4, ARCHIVED, 2), start_offset=1)

    assert states.restarted().shard.state_of(key()) == states.shard.state_of(key())
