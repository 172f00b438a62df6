"""A batch that a driver wants to count: its number, its input, and what tasks have written of it. Pure.

    BatchWork(batch_id, BatchInput(hash, rows, checksum), topics, staged)
    BatchWork.of_topic(batch_id, participants, input)          one topic, as the data source has it

A number alone is no identity: a checkpoint that is one batch old, two writes under one txnVersion, or two runs from copies of one
checkpoint come with a number that is finished, and with other rows. `compare` tells such a batch from a replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from tidelog.spark.outputs.staged import StagedOutput, Target, sum_checksums
from tidelog.spark.sink.audit_entry import AuditEntry
from tidelog.spark.sink.sink_participant import Participant


class BatchInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a batch is made of, and how much came of it."""

    hash: str | None
    """SHA-256 of Spark's own entry `offsets/N`, in hexadecimal digits. None for a batch write, and where it cannot be read."""
    rows: int
    checksum: int
    """Of all rows for all sinks, in whatever order: see `row_checksum`."""


class TopicOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a batch has for topics of one cluster, in open transactions."""

    sink: str
    """The declared name; empty where a query has one sink."""
    cluster: Target | None = None
    """None: the cluster of the decisions. Else of kind `topic`, with its bootstrap servers as place and client settings as
    options, by Kafka's names; secrets as references."""
    participants: tuple[Participant, ...] = ()
    has_timeout: bool = False
    """In a decision: the cluster ends these transactions by itself, so that they are committed before anything else. Earlier
    releases have not recorded it."""

    @property
    def rows(self) -> int:
        return sum(each.records for each in self.participants)

    @property
    def checksum(self) -> int:
        return sum_checksums(each.checksum for each in self.participants)


class ReplayCheck(Enum):
    """By what a batch is known again that has no hash of its input."""

    CHECKSUM = "checksum"
    """Rows and checksum."""
    COUNT = "count"
    """Rows."""
    NONE = "none"
    """Its number alone."""


class Likeness(Enum):
    """How a batch is to the finished one of the same number."""

    SAME = "same"
    OTHER_ROWS = "other rows"
    """From the same input. Sums of fractions, collected lists and functions of users differ from run to run."""
    NUMBER = "number"
    """Nothing else is known."""
    DIFFERENT = "different"


def compare(finished: BatchInput | None, now: BatchInput | None, check: ReplayCheck) -> Likeness:
    """Whether a batch under a finished number is a replay."""
    if finished is None or now is None:
        return Likeness.NUMBER
    has_rows = (finished.rows, finished.checksum) == (now.rows, now.checksum)
    if finished.hash is not None and now.hash is not None:
        if finished.hash != now.hash:
            return Likeness.DIFFERENT
        return Likeness.SAME if has_rows else Likeness.OTHER_ROWS
    is_same = {ReplayCheck.CHECKSUM: has_rows, ReplayCheck.COUNT: finished.rows == now.rows, ReplayCheck.NONE: True}[
        check
    ]
    return Likeness.SAME if is_same else Likeness.DIFFERENT


class BatchWork(msgspec.Struct, frozen=True):
    """What `commit` and `abort` are given."""

    batch_id: int
    input: BatchInput | None = None
    """None: the number alone is the identity, as it was before there were inputs."""
    topics: tuple[TopicOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    """In declared order: they are ended one after another, and topics after them."""
    replay_check: ReplayCheck = ReplayCheck.CHECKSUM
    audit: AuditEntry | None = None
    is_once: bool = False
    """Nobody comes with this batch again, and nobody has used its identity before: nothing is looked for, nothing kept."""

    @staticmethod
    def of_topic(
        batch_id: int,
        participants: Iterable[Participant],
        input: BatchInput | None = None,  # noqa: A002 - the field's name
        replay_check: ReplayCheck = ReplayCheck.CHECKSUM,
        *,
        is_once: bool = False,
    ) -> BatchWork:
        """Of a query whose one sink is a topic on the cluster of the decisions."""
        written = tuple(participants)
        topics = (TopicOutput("", participants=written),) if written else ()
        return BatchWork(batch_id, input, topics, replay_check=replay_check, is_once=is_once)

    @property
    def participants(self) -> tuple[Participant, ...]:
        return tuple(each for topic in self.topics for each in topic.participants)
