"""A node that ends within a transaction's end, at every single change of its disk: the next start makes all of it or nothing."""

from __future__ import annotations

import pytest

from tests.unit.broker.transaction_node import TransactionNode
from tests.unit.broker.transactions.test_transaction_requests import commit_offset, committed
from tests.unit.broker.transactions.test_transactions import state_of
from tidelog.model.errors import ErrorCode
from tidelog.simulation.disk import crashing

# More than an end makes: 2 records of the coordinator and 3 markers.
CHANGES_MAX = 40


def ended_at(change: int, *, commit: bool) -> tuple[TransactionNode, bool]:
    """A node that ended at a change of the disk within EndTxn, started again; and whether there was such a change."""
    node = TransactionNode()
    node.create_topic("orders", partitions=2)
    producer = node.producer()
    producer.send("orders", "a")
    producer.send("orders", "b", index=1)
    commit_offset(producer, 7)
    node.disk.crash_at(node.disk.changes + change)
    is_through = False
    with crashing():
        producer.end(commit=commit)
        is_through = True
    node.transactions.stop()
    node.disk.kill()
    node.restart_coordinators()
    if state_of(node) == "Ongoing":
        # Nothing was decided: the client asks again.
        assert producer.end(commit=commit) is ErrorCode.NONE
    return node, is_through


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_learns_of_the_same_end(commit: bool) -> None:
    change = 0
    is_through = False
    while not is_through:
        change += 1
        assert change < CHANGES_MAX
        node, is_through = ended_at(change, commit=commit)

        assert state_of(node) == ("CompleteCommit" if commit else "CompleteAbort")
        for index in range(2):
            log = node.log("orders", index)
            assert log.last_stable_offset == log.log_end_offset
            assert log.producers.first_undecided_offset is None
            assert len(log.aborted_transactions(0, 100)) == (0 if commit else 1)
        assert committed(node, stable=True) == (ErrorCode.NONE, 7 if commit else -1)
    assert change > 5
