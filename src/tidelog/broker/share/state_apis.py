"""The five requests about the state of share partitions, as they are alike: each names a group and, of some topics, partitions.

Whoever answers one and whoever sends one go by the same row: `INITIALISE`, `READ`, `WRITE`, `DELETE`, `SUMMARY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state_shard import refused, refused_read, refused_summary
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.model.pending import Pending
from tidelog.wire.messages import share_group_state as wire
from tidelog.wire.schema import Request, Response


class PartitionAsked(Protocol):
    """What a request says of one partition."""

    @property
    def partition(self) -> int: ...


class PartitionAnswer(Protocol):
    """What is answered of one partition."""

    @property
    def partition(self) -> int: ...

    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


class StateKeeper(Protocol):
    """A share coordinator that is on this node: `share_coordinator.ShareCoordinator`."""

    def initialise(
        self, key: SharePartitionKey, asked: wire.PartitionData
    ) -> wire.PartitionResult | Pending[wire.PartitionResult]: ...

    def read(
        self, key: SharePartitionKey, asked: wire.ReadShareGroupStatePartitionData
    ) -> wire.ReadShareGroupStatePartitionResult | Pending[wire.ReadShareGroupStatePartitionResult]: ...

    def write(
        self, key: SharePartitionKey, asked: wire.WriteShareGroupStatePartitionData
    ) -> wire.PartitionResult | Pending[wire.PartitionResult]: ...

    def delete(self, key: SharePartitionKey) -> wire.PartitionResult | Pending[wire.PartitionResult]: ...

    def summary(
        self, key: SharePartitionKey
    ) -> wire.ReadShareGroupStateSummaryPartitionResult | Pending[wire.ReadShareGroupStateSummaryPartitionResult]: ...


class StateApi(NamedTuple):
    """One of them: its messages, how it is asked of this node's coordinator, and what a refusal of it looks like."""

    name: str
    request: type[Any]
    asked_topic: type[Any]
    response: type[Any]
    answered_topic: type[Any]
    ask: Callable[[StateKeeper, SharePartitionKey, Any], Any]
    refuse: Callable[[SharePartitionKey, ErrorCode, str | None], PartitionAnswer]

    def to_request(self, group_id: str, asked: Iterable[tuple[TopicId, PartitionAsked]]) -> Request:
        """One request about partitions of one group."""
        in_order = sorted(asked, key=lambda each: (each[0], each[1].partition))
        topics = [
            self.asked_topic(topic_id=topic_id, partitions=[data for _, data in of_topic])
            for topic_id, of_topic in groupby(in_order, key=lambda each: each[0])
        ]
        request: Request = self.request(group_id=group_id, topics=topics)
        return request

    def to_response(self, topic_ids: Sequence[bytes], answers: Sequence[Sequence[PartitionAnswer]]) -> Response:
        """The answers about each topic's partitions, in the order of the topics."""
        results = [
            self.answered_topic(topic_id=topic_id, partitions=list(of_topic))
            for topic_id, of_topic in zip(topic_ids, answers, strict=True)
        ]
        response: Response = self.response(results=results)
        return response

    def answers_in(self, response: Response | None) -> dict[tuple[TopicId, PartitionIndex], PartitionAnswer]:
        """What a response says, by partition. Nothing, where it is the response to something else."""
        if not isinstance(response, self.response):
            return {}
        return {
            (TopicId(topic.topic_id), PartitionIndex(each.partition)): each
            for topic in response.results
            for each in topic.partitions
        }


INITIALISE = StateApi(
    "initialize",
    wire.InitializeShareGroupStateRequest,
    wire.InitializeStateData,
    wire.InitializeShareGroupStateResponse,
    wire.InitializeStateResult,
    lambda keeper, key, asked: keeper.initialise(key, asked),
    refused,
)
READ = StateApi(
    "read",
    wire.ReadShareGroupStateRequest,
    wire.ReadStateData,
    wire.ReadShareGroupStateResponse,
    wire.ReadStateResult,
    lambda keeper, key, asked: keeper.read(key, asked),
    refused_read,
)
WRITE = StateApi(
    "write",
    wire.WriteShareGroupStateRequest,
    wire.WriteStateData,
    wire.WriteShareGroupStateResponse,
    wire.WriteStateResult,
    lambda keeper, key, asked: keeper.write(key, asked),
    refused,
)
DELETE = StateApi(
    "delete",
    wire.DeleteShareGroupStateRequest,
    wire.DeleteStateData,
    wire.DeleteShareGroupStateResponse,
    wire.DeleteStateResult,
    lambda keeper, key, _asked: keeper.delete(key),
    refused,
)
SUMMARY = StateApi(
    "read summary",
    wire.ReadShareGroupStateSummaryRequest,
    wire.ReadStateSummaryData,
    wire.ReadShareGroupStateSummaryResponse,
    wire.ReadStateSummaryResult,
    # As in Kafka, the leader epoch in the request is not looked at.
    lambda keeper, key, _asked: keeper.summary(key),
    refused_summary,
)
