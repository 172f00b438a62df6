"""What names a prepared transaction (KIP-939): small enough to be kept in the row of a database that decides about it.

prepared = producer.prepare_transaction()
database.save(str(prepared))                                        # "1000:3:payments-1"
...
producer.complete_transaction(PreparedTransaction.parse(database.load()))      # also in another process, later
"""

from __future__ import annotations

from typing import NamedTuple, Self

from tidelog.client.errors import ConfigError


class PreparedTransaction(NamedTuple):
    """A transaction whose records are all written, and whose end is still open. `str` and `parse` are each other's inverse."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        # The numbers first, as in the Java client's form; the id may hold any character.
        return f"{self.producer_id}:{self.producer_epoch}:{self.transactional_id}"

    @classmethod
    def parse(cls, written: str) -> Self:
        """What `str` wrote. ConfigError for anything else."""
        parts = written.split(":", 2) if isinstance(written, str) else []
        if len(parts) == 3 and parts[2] and all(part.isascii() and part.isdigit() for part in parts[:2]):
            producer_id, epoch = int(parts[0]), int(parts[1])
            if producer_id < 2**63 and epoch < 2**15:
                return cls(parts[2], producer_id, epoch)
        raise ConfigError(f"{written!r:.100} names no transaction: expected producer id:epoch:transactional id")
