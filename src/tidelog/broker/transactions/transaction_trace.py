"""What the coordinator of a transactional id tells of while somebody listens: each state that is committed.

transactions.traces[transactional_id] = TransactionTrace(now_ns)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.trace import Trace
from tidelog.model.trace_events import TransactionStateChanged, short

if TYPE_CHECKING:
    from tidelog.coordination.transaction.metadata import TransactionMetadata


class TransactionTrace(Trace):
    """The listeners of one transactional id."""

    def kept(self, metadata: TransactionMetadata) -> None:
        """This is what the id has come to."""
        self.tell(
            TransactionStateChanged(
                transactional_id=short(metadata.transactional_id),
                state=metadata.state.display_name,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                partitions=len(metadata.partitions),
            )
        )
