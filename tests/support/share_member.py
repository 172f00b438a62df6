"""Members of share groups over raw sockets: what they fetch and say is exactly what a test says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.support.cluster_load import wait_until
from tests.support.raw_client import RawClient, Sent
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, uuid_to_text
from tidelog.wire.messages import share_group_state as state
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tidelog.wire.records import each_record

VERSION = 2
METADATA_VERSION = 12

Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and what is said of them: one type, or one for each."""


class Got(NamedTuple):
    """One partition of an answer."""

    acquired: list[tuple[int, int, int]]
    """First and last offset, and the count of deliveries."""
    offsets: list[int]
    """Those of the records that came."""
    error: int
    acknowledge_error: int


class ShareMember:
    """One member with a connection of its own, on one topic."""

    def __init__(self, bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
        self.client = RawClient(bootstrap)
        self.group_id = group_id
        self.member_id = member_id
        self.topic_id = topic_id_of(self.client, topic)
        self.epoch = 0

    def close(self) -> None:
        """Without a word, as one that dies."""
        self.client.__exit__(None, None, None)

    # --- fetching ----------------------------------------------------------------------------------------------------------

    def send_fetch(
        self,
        *acknowledged: Batch,
        partition: int = 0,
        records: int = 500,
        wait_ms: int = 5000,
        mode: int = 0,
        max_bytes: int = 1 << 20,
        renews: bool = False,
        epoch: int | None = None,
    ) -> Sent:
        said = [FetchPartition(partition_index=partition, acknowledgement_batches=_batches(acknowledged))]
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=0 if renews else 1,
            max_bytes=max_bytes,
            max_records=records,
            batch_size=max(1, records),
            share_acquire_mode=mode,
            is_renew_ack=renews,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=said)],
            forgotten_topics_data=[],
        )
        self.epoch += 1
        return self.client.send(request, VERSION)

    def receive_fetch(self, sent: Sent) -> ShareFetchResponse:
        return self.client.receive(sent, ShareFetchResponse)

    def fetch(
        self,
        *acknowledged: Batch,
        records: int = 500,
        wait_ms: int = 5000,
        mode: int = 0,
        max_bytes: int = 1 << 20,
        renews: bool = False,
        partition: int = 0,
    ) -> Got:
        """What the answer has of the partition; nothing where it does not name it."""
        sent = self.send_fetch(
            *acknowledged,
            partition=partition,
            records=records,
            wait_ms=wait_ms,
            mode=mode,
            max_bytes=max_bytes,
            renews=renews,
        )
        answer = self.receive_fetch(sent)
        assert answer.error_code == ErrorCode.NONE, answer.error_code
        return got(answer, partition)

    # --- acknowledging -----------------------------------------------------------------------------------------------------

    def send_acknowledge(
        self, *acknowledged: Batch, partition: int = 0, renews: bool = False, epoch: int | None = None
    ) -> Sent:
        said = [AcknowledgePartition(partition_index=partition, acknowledgement_batches=_batches(acknowledged))]
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=said)] if acknowledged else [],
        )
        self.epoch += 1
        return self.client.send(request, VERSION)

    def acknowledge(self, *acknowledged: Batch, renews: bool = False) -> ShareAcknowledgePartitionData:
        sent = self.send_acknowledge(*acknowledged, renews=renews)
        answer = self.client.receive(sent, ShareAcknowledgeResponse)
        assert answer.error_code == ErrorCode.NONE, answer.error_code
        return answer.responses[0].partitions[0]

    def end_session(self) -> int:
        """Close the session and keep the connection. The error code."""
        return self.client.receive(self.send_acknowledge(epoch=-1), ShareAcknowledgeResponse).error_code


def got(answer: ShareFetchResponse, partition: int = 0) -> Got:
    found: PartitionData | None = next(
        (each for topic in answer.responses for each in topic.partitions if each.partition_index == partition), None
    )
    if found is None:
        return Got([], [], 0, 0)
    acquired = [(each.first_offset, each.last_offset, each.delivery_count) for each in found.acquired_records]
    assert isinstance(found.records, bytes | memoryview)
    offsets = [record.offset for record in each_record(found.records)]
    return Got(acquired, offsets, found.error_code, found.acknowledge_error_code)


def _batches(acknowledged: Sequence[Batch]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in acknowledged
    ]


def topic_id_of(client: RawClient, topic: str) -> bytes:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic, topic_id=ZERO_UUID)], include_topic_authorized_operations=False
    )
    return client.call(request, MetadataResponse, METADATA_VERSION).topics[0].topic_id


def begin_share_state(
    client: RawClient, group_id: str, topic: str, partitions: int = 1, start_offset: int = -1, epoch: int = 0
) -> None:
    """What the coordinator of a group does for the partitions of its topics."""
    request = state.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            state.InitializeStateData(
                topic_id=topic_id_of(client, topic),
                partitions=[
                    state.PartitionData(partition=each, state_epoch=epoch, start_offset=start_offset)
                    for each in range(partitions)
                ],
            )
        ],
    )
    key = f"{group_id}:{uuid_to_text(topic_id_of(client, topic))}:0"
    # The first question for a coordinator has the topic created that it keeps states in.
    client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), FindCoordinatorResponse, 6)

    def is_begun() -> bool:
        answer = client.call(request, state.InitializeShareGroupStateResponse, 0)
        errors = {each.error_code for results in answer.results for each in results.partitions}
        assert errors <= {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, errors
        return errors == {ErrorCode.NONE}

    wait_until(is_begun, "the state of the share partitions has begun")


def read_start_offset(client: RawClient, group_id: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """The durable start offset and the count of what is settled behind it."""
    request = state.ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            state.ReadStateSummaryData(
                topic_id=topic_id_of(client, topic),
                partitions=[state.ReadShareGroupStateSummaryPartitionData(partition=partition, leader_epoch=-1)],
            )
        ],
    )
    answer = client.call(request, state.ReadShareGroupStateSummaryResponse, 1)
    found = answer.results[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, found.error_code
    return found.start_offset, found.delivery_complete_count
