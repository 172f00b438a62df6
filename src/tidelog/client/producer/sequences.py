"""The order of a producer's batches: its identity, and the sequence numbers of each partition.

A broker takes a batch of an idempotent producer only if its sequence follows that of the batch before, and knows a repeated one.
So a batch keeps its number through all attempts. Where a number can never be used (its batch was given up, or the broker has
lost what came before), the producer's epoch is raised for that partition, and its numbers begin again at 0 (KIP-360):

    wants_new_epoch, nothing in flight → raise → every queued batch of the partition is numbered anew

Never before it is certain that what is numbered anew was not written: a batch that may have been is tried with its old number,
and only the broker's word that this number does not follow lets it have another.

Partitions that had no trouble follow once they have nothing in flight.

A partition in which a producer has written nothing takes any number for its first: were the first batch refused and the second
one let in, the first could never follow. So nothing is in flight behind a producer's first batch in a partition.
"""

from __future__ import annotations

from dataclasses import dataclass

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1


@dataclass(slots=True)
class ProducerIdentity:
    """The id and epoch that the cluster gave this producer. -1 while it has none."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def is_known(self) -> bool:
        return self.producer_id >= 0

    def given(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch

    def raise_epoch(self) -> None:
        """The next epoch; after the last one a new id has to be asked for."""
        if self.epoch >= EPOCH_MAX:
            self.producer_id = self.epoch = -1
        else:
            self.epoch += 1


@dataclass(slots=True)
class PartitionSequences:
    """The numbers of one partition under one identity."""

    producer_id: int = -1
    epoch: int = -1
    next_sequence: int = 0
    acknowledged_sequence: int = -1
    """The last number that was acknowledged; -1 for none."""
    wants_new_epoch: bool = False
    written_producer_id: int = -1
    """The last id under which a batch was acknowledged; -1 for none."""

    @property
    def is_begun(self) -> bool:
        """Whether the partition has something of this producer, in this epoch or another: then it knows what comes next."""
        return self.written_producer_id == self.producer_id

    def is_current(self, identity: ProducerIdentity) -> bool:
        return self.producer_id == identity.producer_id and self.epoch == identity.epoch

    def begin(self, identity: ProducerIdentity) -> None:
        """Start at 0 under an identity."""
        self.producer_id, self.epoch = identity.producer_id, identity.epoch
        self.next_sequence, self.acknowledged_sequence = 0, -1
        self.wants_new_epoch = False

    def take(self, record_count: int) -> int:
        """The number of a batch's first record."""
        sequence = self.next_sequence
        self.next_sequence = following(sequence, record_count)
        return sequence

    def acknowledged(self, sequence: int, record_count: int) -> None:
        """A batch was written. An answer that comes late does not move anything back."""
        self.written_producer_id = self.producer_id
        last = following(sequence, record_count - 1)
        # Sequence numbers wrap around: later means within half the ring.
        if (last - self.acknowledged_sequence) % (SEQUENCE_MAX + 1) < SEQUENCE_MAX // 2:
            self.acknowledged_sequence = last

    @property
    def has_gap(self) -> bool:
        """Whether a number was given to a batch that was not acknowledged."""
        return (self.acknowledged_sequence + 1) & SEQUENCE_MAX != self.next_sequence


def following(sequence: int, count: int) -> int:
    return (sequence + count) & SEQUENCE_MAX
