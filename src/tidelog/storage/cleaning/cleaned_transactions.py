"""The transactions that a cleaning comes across, in the order of the log: which data were aborted, which markers may go.

A marker may go once nothing of its transaction is left before it. An abort marker whose data were there stays, and so does its
entry in the transaction index: readers of the data still need both. Both then go with a later cleaning.

Kafka's rules; the time that a marker stays beyond that, its delete horizon, is the filter's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.storage.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.record_batch import BatchHeader, BytesLike
from tidelog.wire.records import decode_batch


class CleanedTransactions:
    """Is told of every control batch and every batch of a transaction, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are the aborted transactions of all segments that are read."""
        self._aborted = deque(sorted(aborted, key=lambda each: each.first_offset))
        # By producer, the aborted transaction that the log is in, and whether any of its data has been seen.
        self._in_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._in_committed: set[int] = set()
        self.cleaned_index: TransactionIndex | None = None
        """Where the aborted transactions go of which something is left."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._pass(header.last_offset)
        found = self._in_aborted.get(header.producer_id)
        if found is None:
            self._in_committed.add(header.producer_id)
            return False
        self._in_aborted[header.producer_id] = (found[0], True)
        return True

    def may_go(self, header: BatchHeader, buffer: BytesLike, position: int = 0) -> bool:
        """Whether a control batch says nothing any more about what is before it. CorruptBatchError if it cannot be read."""
        self._pass(header.last_offset)
        if header.record_count == 0:
            return True
        control_type = read_control_type(decode_batch(buffer, header, position)[0].key)
        if control_type is ControlType.COMMIT:
            was_seen = header.producer_id in self._in_committed
            self._in_committed.discard(header.producer_id)
            return not was_seen
        if control_type is ControlType.ABORT:
            transaction, was_seen = self._in_aborted.pop(header.producer_id, (None, False))
            if transaction is not None and was_seen:
                if self.cleaned_index is not None:
                    self.cleaned_index.append(transaction)
                return False
            return True
        return False

    def _pass(self, offset: int) -> None:
        aborted = self._aborted
        while aborted and aborted[0].first_offset <= offset:
            transaction = aborted.popleft()
            self._in_aborted.setdefault(transaction.producer_id, (transaction, False))
