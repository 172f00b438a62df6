"""What a partition knows of a transaction before its first records are in the log (KIP-890).

A transactional batch must not enter a log unless the transaction's coordinator knows of the partition: nobody would ever write
the marker that ends it, and readers of committed records would wait for ever. So the coordinator is asked first, and while it is,
the transaction may end. The guard tells: it is given out when the question is asked, and is gone as soon as a marker or the first
records are written. Records that come with a guard that is gone are refused.
"""

from __future__ import annotations

NO_GUARD = 0
"""The guard of a batch that must belong to a transaction which is open already."""


class Verification:
    """One producer's question. Retries of it share the guard."""

    __slots__ = ("begun_ms", "epoch", "guard", "lowest_sequence", "raises_epochs")

    def __init__(self, guard: int, epoch: int, sequence: int, begun_ms: int, *, raises_epochs: bool) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.begun_ms = begun_ms
        self.raises_epochs = raises_epochs
        """Whether each of the producer's transactions has an epoch of its own, which then begins with sequence 0."""

    def note(self, epoch: int, sequence: int) -> None:
        """The same producer asks for another batch."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def forbids(self, sequence: int, *, is_unknown: bool) -> bool:
        """Whether a batch must not be the first one: it would overtake one that is still asked about.

        `is_unknown`: the log knows no batch of the producer.
        """
        return sequence > self.lowest_sequence or (self.raises_epochs and is_unknown and sequence != 0)
