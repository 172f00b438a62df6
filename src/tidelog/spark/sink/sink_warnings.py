"""What the driver's half of a sink tells once: markers that are many, input that is not to be had, transactions of others.

Spark keeps the process that commits as long as batches come. Where they are rarer than once a minute it starts another one, which
tells again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from tidelog.spark.sink.open_transactions import tell_open_elsewhere
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity

log = logging.getLogger(__name__)

# Each is a record that a leader writes and its followers fetch; so many take seconds.
MARKERS_MAX = 20_000
# A process serves few queries; beyond that it may tell twice.
_TOLD_MAX = 1000
# To look at others' transactions must not hold up a query.
_LOOK_TIMEOUT_MS = 5_000

_told: dict[tuple[str, str], None] = {}
_lock = threading.Lock()


def is_first(run: str, about: str) -> bool:
    """Whether nothing was told of this in the run as yet; from now on it was."""
    with _lock:
        if (run, about) in _told:
            return False
        _told[run, about] = None
        while len(_told) > _TOLD_MAX:
            del _told[next(iter(_told))]
    return True


def was_told(run: str, about: str) -> bool:
    with _lock:
        return (run, about) in _told


def warn_once(run: str, about: str, sentence: str) -> None:
    if is_first(run, about):
        log.warning("%s", sentence)


def warn_of_markers(
    identity: SinkIdentity,
    run: str,
    participants: Sequence[Participant],
    way_out: str = "tidelog.spark.target_partitions.by_target_partition before the write",
) -> None:
    """Each transaction is ended in each of its partitions: tasks times partitions, where every task has rows for all of them."""
    markers = sum(each.partition_count for each in participants)
    if markers > MARKERS_MAX:
        warn_once(
            run,
            "markers",
            f"a batch of {identity} is ended by {markers} markers: it has {len(participants)} tasks, and each has written "
            f"to {markers // len(participants)} partitions. Let each task write to few, by {way_out}, or have fewer tasks",
        )


def warn_of_open_transactions(options: SinkOptions, identity: SinkIdentity, run: str, topics: Sequence[str]) -> None:
    """What queries that may never come back have open on a query's topics, and how to end it: once a run."""
    if topics and is_first(run, "open transactions"):
        settings = {**options.client, "max_block_ms": _LOOK_TIMEOUT_MS}
        for sentence in tell_open_elsewhere(settings, topics, options.prefix, but=identity):
            log.warning("%s", sentence)
