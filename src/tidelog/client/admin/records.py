"""The records of partitions, as an administrator sees them: which offsets there are, and which may go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.client.admin.outcomes import value_of
from tidelog.client.admin.requests import Requests
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError, UnsupportedError
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

HIGH_WATERMARK = -1
"""As an offset before which records are deleted: all that consumers can have seen."""


class OffsetSpec(IntEnum):
    """Which offset of a partition is asked for. The numbers are Kafka's; a time in milliseconds is one as well."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """That of the record with the largest timestamp."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_FIRST_VERSION = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that was asked for. None where there is none, as for a time after the last record."""

    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None


class RecordCalls:
    """What an admin does with the records of partitions."""

    _requests: Requests

    async def list_offsets(
        self, wanted: Mapping[tuple[str, int], OffsetSpec | int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | ClientError]:
        """The first or last offset of partitions, or the first at or after a time. LATEST is the next one to be written;
        `read_committed` leaves out what belongs to open transactions.

        >>> await admin.list_offsets({("orders", 0): OffsetSpec.LATEST, ("orders", 1): 1753776000000})
        """

        def request(asked: Mapping[TopicPartition, OffsetSpec | int]) -> ListOffsetsRequestMaker:
            return ListOffsetsRequestMaker(asked, read_committed, self._requests.options.request_timeout_ms)

        def read(answer: ListOffsetsResponse) -> Iterable[tuple[TopicPartition, int, ListedOffset]]:
            for topic in answer.topics:
                for each in topic.partitions:
                    listed = ListedOffset(_known(each.offset), _known(each.timestamp), _known(each.leader_epoch))
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, listed

        by_partition = {TopicPartition(*each): spec for each, spec in wanted.items()}
        return await self._requests.ask_leaders(by_partition, request, ListOffsetsResponse, read)

    async def list_offset(self, topic: str, partition: int, spec: OffsetSpec | int = OffsetSpec.LATEST) -> ListedOffset:
        """One offset of one partition."""
        return value_of((await self.list_offsets({(topic, partition): spec}))[TopicPartition(topic, partition)])

    async def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int | ClientError]:
        """Delete the records before an offset of each partition, HIGH_WATERMARK for all. The first offset that is left.

        >>> await admin.delete_records({("orders", 0): 1000})
        """

        def request(asked: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=index, offset=asked[TopicPartition(topic, index)])
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(asked).items()
                ],
                timeout_ms=self._requests.options.change_timeout_ms,
            )

        def read(answer: DeleteRecordsResponse) -> Iterable[tuple[TopicPartition, int, int]]:
            for topic in answer.topics:
                for each in topic.partitions:
                    yield TopicPartition(topic.name, each.partition_index), each.error_code, each.low_watermark

        by_partition = {TopicPartition(*each): offset for each, offset in before.items()}
        return await self._requests.ask_leaders(by_partition, request, DeleteRecordsResponse, read)


class ListOffsetsRequestMaker:
    """ListOffsets in the version that a broker has; UnsupportedError where that does not know what is asked for."""

    def __init__(self, asked: Mapping[TopicPartition, OffsetSpec | int], read_committed: bool, timeout_ms: int) -> None:
        self._asked = asked
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms

    def __call__(self, version: int) -> ListOffsetsRequest:
        for spec in self._asked.values():
            if version < _FIRST_VERSION.get(OffsetSpec(spec), 0) if spec < 0 else False:
                raise UnsupportedError(f"the broker is too old to know the offset {OffsetSpec(spec).name}")
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1 if self._read_committed else 0,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index, timestamp=int(self._asked[TopicPartition(topic, index)])
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(self._asked).items()
            ],
            timeout_ms=self._timeout_ms,
        )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
