"""What can go wrong with a consumer alone; the rest is in `tidelog.client.errors`.

ClientError
├── ConsumerStateError    a call that does not fit what the consumer is doing
├── WakeupError           another thread called `wakeup`
├── CorruptRecordsError   a batch that was fetched is damaged
└── RefusedError
    └── LogTruncatedError     the log has lost records that were read, and no rule says where to go on
"""

from __future__ import annotations

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode


class ConsumerStateError(ClientError, RuntimeError):
    """A call that makes no sense now: seeking in a partition that is not assigned, committing without a group."""


class WakeupError(ClientError):
    """`wakeup` was called from another thread; nothing is lost, and the consumer can go on."""


class CorruptRecordsError(ClientError):
    """A batch is damaged. The position stays in front of it; seek behind it to go on."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, partition: TopicPartition, offset: int, sentence: str) -> None:
        super().__init__(f"{partition} cannot be read at offset {offset}: {sentence}")
        self.partition = partition
        self.offset = offset


class LogTruncatedError(RefusedError):
    """The log has been truncated below the position (an unclean election). `offset` is where it diverged, -1 if unknown."""

    def __init__(self, partition: TopicPartition, position: int, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} was truncated to offset {offset}, below the position {position}: "
            "records that were read are gone; seek to go on",
        )
        self.partition = partition
        self.position = position
        self.offset = offset
