from __future__ import annotations

from tests.support.share_world import ShareWorld
from tidelog.broker.share.aborted_records import without_aborted
from tidelog.broker.share.acquisition import Acquired
from tidelog.broker.share.delivery import RecordState
from tidelog.broker.share.log_batches import LogBatch, aborted_batches
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.transaction_index import AbortedTransaction

LOG = [
    LogBatch(0, 4),
    LogBatch(5, 9, producer_id=7, holds_transaction=True),
    LogBatch(10, 14, producer_id=8, holds_transaction=True),
    LogBatch(15, 15, producer_id=7),
    LogBatch(16, 19, producer_id=7, holds_transaction=True),
]
ABORTED = AbortedTransaction(ProducerId(7), Offset(5), Offset(15), Offset(20))


def test_a_batch_is_aborted_if_its_producer_began_before_it_and_the_marker_comes_after_it() -> None:
    assert aborted_batches(LOG, [ABORTED]) == [LOG[1]]
    assert aborted_batches(LOG, []) == []


def test_aborted_records_are_left_out_and_nobody_has_to_settle_them() -> None:
    world = ShareWorld(LOG)
    acquired = world.fetch("a", records=20)

    left = without_aborted(world.partition, acquired, aborted_batches(LOG, [ABORTED]))

    assert left == [Acquired(0, 4, 1), Acquired(10, 19, 1)]
    assert world.state_of(5) is RecordState.ARCHIVED
    assert world.state_of(10) is RecordState.ACQUIRED
    assert world.partition.completed_count == 5

    world.say("a", 0, 4, 1)

    assert world.partition.start_offset == 10


def test_a_fetch_of_aborted_records_alone_gives_nothing_and_the_start_passes_them() -> None:
    world = ShareWorld([LOG[1]], start_offset=5)
    acquired = world.fetch("a", records=20)

    assert without_aborted(world.partition, acquired, [LOG[1]]) == []
    assert world.partition.start_offset == 10
