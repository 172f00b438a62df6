"""What can go wrong between a client and a cluster. The text is one sentence for a person.

ClientError
├── ConfigError               an option that does not exist, or cannot have this value
├── NotReachedError           no node answered, or the one that is needed did not
│   └── TimedOutError         not within the time that the caller gave
├── AuthenticationError       the cluster does not know this client, or the client the cluster: not tried again by itself
├── UnsupportedError          the cluster does not have the API, or no version of it that this client speaks
├── ClosedError               the client was closed
├── MissingExtraError         the call needs a package that an extra of Tidelog brings
├── SerializationError        a key or value could not be turned into bytes, or back
├── BufferFullError           a producer's buffer had no room for a record in time
├── RecordTooLargeError       a record is larger than the producer may send
└── RefusedError              the cluster understood, and said no; `code` is Kafka's
    ├── UnknownTopicError         there is no such topic; `topic` is what it was called
    ├── DeliveryFailedError       a record was not written, or nobody knows whether it was
    ├── FencedError               a newer instance of this producer or member has taken over
    ├── CommitFailedError         offsets were not committed, since the group has gone on without this member
    ├── RebalanceInProgressError  the group is about to share its partitions anew
    ├── OffsetOutOfRangeError     a position that the log does not hold, and no rule for what to do then
    └── NoOffsetForPartitionError no committed offset, and no rule for what to do then

`code` is what Kafka calls it, where Kafka has a name for it; `retriable` whether the same may succeed later.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode


class ClientError(Exception):
    """Anything that keeps a client from getting what it asked for."""

    code: ErrorCode | None = None

    @property
    def retriable(self) -> bool:
        return self.code is not None and self.code.retriable


class ConfigError(ClientError, TypeError, ValueError):
    """An option that a client does not have, or a value that it cannot have."""


class NotReachedError(ClientError):
    """Nobody answered. Whether a request was acted upon is unknown."""

    code = ErrorCode.NETWORK_EXCEPTION


class TimedOutError(NotReachedError, TimeoutError):
    """The time that the caller gave was not enough."""

    code = ErrorCode.REQUEST_TIMED_OUT


class AuthenticationError(ClientError):
    """One side does not accept what the other one is: a wrong password, a token that is not good, a certificate of an unknown
    authority. Calls fail at once, and the next call tries again."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedError(ClientError):
    """The cluster is too old for the request, or does not have the feature."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ClosedError(ClientError):
    """The client is closed, and nothing more can be asked of it."""


class MissingExtraError(ClientError, ImportError):
    """A package is not installed that an extra of Tidelog would have brought."""


class SerializationError(ClientError):
    """A serializer or deserializer failed; the cause is attached."""


class BufferFullError(ClientError, TimeoutError):
    """`buffer_memory` was full for `max_block_ms`: records come faster than the cluster takes them."""


class RecordTooLargeError(ClientError, ValueError):
    """A record that no batch of this producer can hold."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RefusedError(ClientError):
    """The cluster's own answer was an error."""

    code: ErrorCode

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class UnknownTopicError(RefusedError):
    """There is no topic of this name, or none that the client may know of."""

    def __init__(self, topic: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        self.topic = topic


class DeliveryFailedError(RefusedError):
    """A record was not acknowledged. With a retriable code it may have been written all the same."""


class FencedError(RefusedError):
    """A newer instance has taken over; this one cannot go on."""


class TransactionStateError(ClientError):
    """A call that does not fit what the producer's transaction is at: nothing was done."""


class TransactionAbortableError(RefusedError):
    """The transaction cannot be committed, and everything else is well: abort it, then do its work again in a new one."""


class ProducerFencedError(FencedError):
    """Another producer with the same transactional id has taken over, or ended this one's transaction: close this one."""


class ProducerFailedError(RefusedError):
    """A transactional producer cannot go on: close it. One that is made anew finds out what became of the transaction."""


class CommitFailedError(RefusedError):
    """The group has gone on without this member, and its partitions may be others' now."""


class RebalanceInProgressError(RefusedError):
    """The group is rebalancing: poll, then try again."""


class OffsetOutOfRangeError(RefusedError):
    """The log does not hold the position, and `auto_offset_reset` is none."""


class NoOffsetForPartitionError(RefusedError):
    """There is no committed offset, and `auto_offset_reset` is none."""


def refusal(
    code: int, message: str | None, *, about: str = "", kind: type[RefusedError] = RefusedError
) -> RefusedError:
    """The error of an answer, in the cluster's words where it has some."""
    row = ErrorCode.of(code)
    name = row.name if row == code else f"error {code}"
    words = message or row.message
    return kind(row, f"{about}: {words} ({name})" if about else f"{words} ({name})")
