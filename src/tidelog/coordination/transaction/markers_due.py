"""Markers that have to be written because a transaction's outcome is decided."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import TopicPartition


class MarkersDue(NamedTuple):
    """One outcome for some partitions, at least one. Whoever writes the last marker calls `TransactionShard.markers_written`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch of the marker. With transaction version 2 it is above the one that the records were written with."""
    coordinator_epoch: int
    is_committed: bool
    partitions: tuple[TopicPartition, ...]
    """In ascending order."""
    transaction_version: int
    """By which the transaction was ended: 2 has a partition insist on the higher epoch (KIP-1228)."""
