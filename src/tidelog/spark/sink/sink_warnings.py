"""What the driver's half of a sink tells once: markers that are many, input that is not to be had, transactions of others.

Spark keeps the process that commits as long as batches come. Where they are rarer than once a minute it starts another one, which
tells again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from tidelog.client.background import Background
from tidelog.client.errors import ClientError
from tidelog.client.seams import ClientSeams
from tidelog.model.clock import system_now_ms
from tidelog.spark.sink.open_transactions import OpenElsewhere, open_elsewhere
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity

log = logging.getLogger(__name__)

# Each is a record that a leader writes and its followers fetch; so many take seconds.
MARKERS_MAX = 20_000
# A process serves few queries; beyond that it may tell twice.
_TOLD_MAX = 1000
# To look at others' transactions must not hold up the batch.
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
    """What queries that may never come back have open on a query's topics, and how to end it: with its first batch."""
    if not topics or not is_first(run, "open transactions"):
        return
    try:
        for each in _open_on(options, identity, topics):
            log.warning("%s", each)
    except ClientError as error:
        log.info("open transactions on %s cannot be listed: %s", ", ".join(topics), error)


def _open_on(options: SinkOptions, identity: SinkIdentity, topics: Sequence[str]) -> list[OpenElsewhere]:
    from tidelog.client.admin import AsyncAdmin  # noqa: PLC0415 - once a run
    from tidelog.spark.client_settings import common_settings  # noqa: PLC0415

    background = Background.acquire()

    async def look() -> list[OpenElsewhere]:
        settings = {**common_settings(options.client), "default_api_timeout_ms": _LOOK_TIMEOUT_MS}
        async with AsyncAdmin.on(ClientSeams.of(background.loop), **settings) as admin:
            return await open_elsewhere(admin, topics, options.prefix, now_ms=system_now_ms(), but=identity)

    try:
        return background.call(look(), 2 * _LOOK_TIMEOUT_MS / 1000)
    finally:
        background.release()
