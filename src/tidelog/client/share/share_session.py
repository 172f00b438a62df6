"""The client's half of a share session with one broker, as a pure machine.

Its first request names every partition that is wanted; those that follow name only what changed, what is wanted no longer, and
what is acknowledged. ShareFetch and ShareAcknowledge count in one sequence of epochs. Acknowledgements need a session: the first
request can have none, since a broker that does not know the session has given the records to others.

    epoch 0    opens a session           epoch n    the n-th request in it; after 2147483647 comes 1           epoch -1    the end
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.client.share.places import Place, by_topic_id
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)

_EPOCH_MAX = 2**31 - 1
_INITIAL_EPOCH = 0
_FINAL_EPOCH = -1
_FORGOTTEN = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

Batches = Mapping[Place, list[AcknowledgementBatch]]


class ShareSession:
    """What one broker knows that this member wants from it."""

    def __init__(self) -> None:
        self.epoch = _INITIAL_EPOCH
        """Of the next request."""
        self._known: frozenset[Place] = frozenset()

    @property
    def is_new(self) -> bool:
        return self.epoch == _INITIAL_EPOCH

    def fetch(self, wanted: Iterable[Place], said: Batches) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What a ShareFetch names, so that it is about `wanted` and nothing else."""
        known = frozenset() if self.is_new else self._known
        self._known = frozenset(wanted)
        topics: dict[bytes, FetchTopic] = {}
        for place in sorted((self._known - known) | set(said)):
            topic = topics.setdefault(place.topic_id, FetchTopic(topic_id=place.topic_id, partitions=[]))
            topic.partitions.append(
                FetchPartition(
                    partition_index=place.partition.partition, acknowledgement_batches=list(said.get(place, ()))
                )
            )
        gone = by_topic_id(known - self._known)
        return list(topics.values()), [
            ForgottenTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in gone.items()
        ]

    def acknowledge(self, said: Batches) -> list[AcknowledgeTopic]:
        """What a ShareAcknowledge names."""
        topics: dict[bytes, AcknowledgeTopic] = {}
        for place in sorted(said):
            topic = topics.setdefault(place.topic_id, AcknowledgeTopic(topic_id=place.topic_id, partitions=[]))
            topic.partitions.append(
                AcknowledgePartition(partition_index=place.partition.partition, acknowledgement_batches=said[place])
            )
        return list(topics.values())

    def answered(self, error_code: int) -> bool:
        """Whether the answer is one: False where it is an error of all of it."""
        if error_code in _FORGOTTEN:
            self.restart()
            return False
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return error_code == ErrorCode.NONE

    def restart(self) -> None:
        """The last request got no answer: the next one opens the session anew, and what was acquired in the old one is let go."""
        self.epoch = _INITIAL_EPOCH

    def close(self) -> None:
        """The next request is the last one."""
        self.epoch = _FINAL_EPOCH
