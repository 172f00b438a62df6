"""A membership of a share group, hosted: heartbeats by a timer, and which partitions by name are this member's."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.consumer.consumer_member import named
from tidelog.client.consumer.heartbeats import HeartbeatParts, Heartbeats
from tidelog.client.consumer.membership import Failed, Next
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, UnsupportedError
from tidelog.client.share.places import Place
from tidelog.client.share.share_member import ShareMember
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

_NO_SHARE_GROUPS = "the cluster has no share groups: it takes brokers that know them, and share.version 1 or higher"


class ShareGroup:
    """What the coordinator has given to this member, kept as fresh as its heartbeats are."""

    def __init__(
        self, parts: HeartbeatParts, metadata: ClusterMetadata, member: ShareMember, on_change: Callable[[], None]
    ) -> None:
        """`on_change`: the partitions are others than before, or there is an `error`."""
        self.member = member
        self.error: ClientError | None = None
        self._metadata = metadata
        self._on_change = on_change
        self._heartbeats = Heartbeats(
            parts, member, ShareGroupHeartbeatResponse, self._request, self._heard, self._away
        )

    def _request(self, _version: int) -> ShareGroupHeartbeatRequest:
        return self.member.heartbeat_request()

    def subscribe(self, topics: frozenset[str]) -> None:
        self.member.subscribe(topics)
        self._heartbeats.polled()
        self._heartbeats.begin()

    def polled(self) -> None:
        """The application is alive, perhaps again."""
        self._heartbeats.polled()
        if self.member.back():
            self._heartbeats.begin()

    def places(self) -> list[Place]:
        """The partitions to fetch, as far as the names of their topics are known; the metadata is asked for the others."""
        names = self._metadata.names_by_id
        assigned = self.member.assigned
        if any(topic_id not in names for topic_id in assigned):
            self._metadata.request_update()
        return [Place(self._metadata.topics[each.topic].id, each) for each in self._named()]

    def _named(self) -> list[TopicPartition]:
        return named(self.member.assigned, self._metadata.names_by_id)

    def _heard(self, outcome: Next | Failed) -> None:
        if isinstance(outcome, Failed):
            self.error = _explained(outcome.error)
        elif outcome is Next.LOST:
            self._heartbeats.send_soon()
        self._on_change()

    def _away(self) -> None:
        self.member.away()
        self._on_change()

    def take_error(self) -> ClientError | None:
        """What the application has to hear, once; the next poll tries again."""
        error, self.error = self.error, None
        if error is not None and self.member.topics:
            self.subscribe(self.member.topics)
        return error

    async def leave(self, timeout_ms: float) -> None:
        """Tell the coordinator, as far as it is reached in time."""
        await self._heartbeats.leave(timeout_ms)
        self.member.left()

    def stop(self) -> None:
        self._heartbeats.stop()


def _explained(error: ClientError) -> ClientError:
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return UnsupportedError(_NO_SHARE_GROUPS)
    return error
