"""The client's half of an incremental fetch session with one broker (KIP-227), as a pure machine.

The first request names every partition and asks for a session; those that follow name only what changed, and what is wanted no
longer. Each carries the session's next epoch. An error that says that the broker has forgotten the session, or that the epochs do
not fit, starts a new one; so does a request that got no answer, since nobody knows whether the broker saw it.

    epoch 0     a full request that opens a session           epoch -1   no session, or the end of one
    epoch n     the n-th incremental request; after 2147483647 comes 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

_EPOCH_MAX = 2**31 - 1
_INITIAL_EPOCH = 0
_FINAL_EPOCH = -1
_NO_SESSION = 0
# Topics by id: a session that began with names cannot go on with ids.
_TOPIC_IDS_VERSION = 13


class FetchFrom(NamedTuple):
    """Where a partition is fetched from, as a broker is told."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int
    partition_bytes_max: int


class SessionRequest(NamedTuple):
    """The parts of a fetch request that the session decides about."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """What one broker knows that this consumer wants from it."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._known: dict[TopicPartition, FetchFrom] = {}
        self._by_id = False

    @property
    def is_open(self) -> bool:
        return self._id != _NO_SESSION

    def next_request(self, wanted: Mapping[TopicPartition, FetchFrom], version: int) -> SessionRequest:
        """Ask for `wanted` and for nothing else."""
        by_id = version >= _TOPIC_IDS_VERSION
        if self._epoch != _INITIAL_EPOCH and by_id != self._by_id:
            self.restart()
        self._by_id = by_id
        if self._epoch == _INITIAL_EPOCH:
            self._known = dict(wanted)
            return SessionRequest(self._id, self._epoch, _topics(wanted), [])
        replaced = {
            partition
            for partition, known in self._known.items()
            if partition in wanted and wanted[partition].topic_id != known.topic_id
        }
        changed = {partition: asked for partition, asked in wanted.items() if self._known.get(partition) != asked}
        gone = {
            partition: known
            for partition, known in self._known.items()
            if partition not in wanted or partition in replaced
        }
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, _topics(changed), _forgotten(gone))

    def answered(self, answer: FetchResponse) -> bool:
        """Whether the answer is one: False where the session has to begin again."""
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = _NO_SESSION
            self._epoch = _INITIAL_EPOCH
            return False
        if self._epoch == _INITIAL_EPOCH:
            # A broker without room for a session answers with id 0: then every request is a full one.
            self._id = answer.session_id
            self._epoch = 1 if self._id != _NO_SESSION else _INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def restart(self) -> None:
        """The last request got no answer: the next one is full, and closes the old session by naming its id."""
        self._epoch = _INITIAL_EPOCH

    def closing_request(self) -> SessionRequest | None:
        """What tells the broker that the session is over; None where there is none."""
        if not self.is_open:
            return None
        request = SessionRequest(self._id, _FINAL_EPOCH, [], [])
        self._id, self._epoch, self._known = _NO_SESSION, _INITIAL_EPOCH, {}
        return request


def _topics(wanted: Mapping[TopicPartition, FetchFrom]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), asked in wanted.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=asked.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.fetch_offset,
                partition_max_bytes=asked.partition_bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, FetchFrom]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, index), known in gone.items():
        key = (name, known.topic_id or ZERO_UUID)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = ForgottenTopic(topic=name, topic_id=known.topic_id, partitions=[])
        topic.partitions.append(index)
    return list(topics.values())
