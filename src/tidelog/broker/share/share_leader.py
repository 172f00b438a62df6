"""The share partitions that a node leads, by group and partition. Each is made by the first fetch of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tidelog.broker.share.led_share_partition import LeaderSeams, LedSharePartition
from tidelog.broker.share.share_limits import ShareLimits, share_limits
from tidelog.broker.share.share_metrics import ShareMetrics
from tidelog.broker.share.share_sessions import FetchedPartition, ShareSession, ShareSessions
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.replication.partition import Partition

GROUP_RESOURCE = 32
_SHARE_VERSION = "share.version"


class _Limits(NamedTuple):
    """What groups go by, and which configurations say so."""

    config: ConfigValues
    configs: Mapping[ConfigResource, Mapping[str, str]]
    of_groups: dict[str, ShareLimits]
    """Of those with values of their own."""
    of_all_others: ShareLimits

    @classmethod
    def of(cls, config: ConfigValues, configs: Mapping[ConfigResource, Mapping[str, str]]) -> _Limits:
        of_groups = {
            name: share_limits(config, values)
            for (resource_type, name), values in configs.items()
            if resource_type == GROUP_RESOURCE and values
        }
        return cls(config, configs, of_groups, share_limits(config, {}))


class ShareLeader:
    """See the module."""

    def __init__(
        self,
        sessions: ShareSessions,
        seams: LeaderSeams,
        config_now: Callable[[], ConfigValues],
        image_now: Callable[[], ClusterImage],
    ) -> None:
        self.sessions = sessions
        self.metrics = ShareMetrics()
        self._seams = seams
        self._config_now = config_now
        self._image_now = image_now
        self._limits: _Limits | None = None
        self._led: dict[str, dict[FetchedPartition, LedSharePartition]] = {}
        sessions.on_member_gone = self._member_gone
        sessions.on_group_gone = self._group_gone

    def __iter__(self) -> Iterator[LedSharePartition]:
        for led in self._led.values():
            yield from led.values()

    @property
    def is_on(self) -> bool:
        """Whether the cluster has share groups: its feature says so."""
        return bool(self._image_now().features.get(_SHARE_VERSION))

    def limits_of(self, group_id: str) -> ShareLimits:
        """What a group goes by: its own values, within the bounds that the broker sets, or else the broker's."""
        config, configs = self._config_now(), self._image_now().configs
        # Asked with every request, and the same for almost all groups.
        known = self._limits
        if known is None or known.config is not config or known.configs is not configs:
            known = self._limits = _Limits.of(config, configs)
        return known.of_groups.get(group_id, known.of_all_others)

    def find(self, group_id: str, topic_id: TopicId, partition: PartitionIndex) -> LedSharePartition | None:
        """A share partition, if a member has fetched of it."""
        led = self._led.get(group_id)
        return None if led is None else led.get(FetchedPartition(topic_id, partition))

    def lead(self, group_id: str, partition: Partition) -> LedSharePartition:
        """The share partition of a group on a partition that this node leads."""
        key = FetchedPartition(partition.topic_id, partition.topic_partition.partition)
        led = self._led.setdefault(group_id, {})
        found = led.get(key)
        if found is not None and found.leader_epoch != partition.leader_epoch:
            # Its watcher is about to hear of it.
            found.partition_changed(partition)
            found = None
        if found is None:
            found = LedSharePartition(group_id, partition, self._seams, self.limits_of, self.metrics, self._ended)
            self._led.setdefault(group_id, {})[key] = found
            found.load()
        return found

    def follow(self) -> None:
        """The cluster has changed, perhaps to one without share groups."""
        if self._led and not self.is_on:
            self.sessions.close_all()
            for group_id in list(self._led):
                self._group_gone(group_id)

    def stop(self) -> None:
        """The node stops: members are to look for who leads next."""
        for led in list(self):
            led.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _member_gone(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        for topic_id, partition in session.partitions:
            led = self.find(group_id, topic_id, partition)
            if led is not None:
                led.release(member_id)

    def _group_gone(self, group_id: str) -> None:
        for led in list(self._led.get(group_id, {}).values()):
            led.drop()

    def _ended(self, led: LedSharePartition) -> None:
        of_group = self._led.get(led.group_id, {})
        key = FetchedPartition(led.partition.topic_id, led.partition.topic_partition.partition)
        if of_group.get(key) is led:
            del of_group[key]
        if not of_group:
            self._led.pop(led.group_id, None)
            self.metrics.of_groups.pop(led.group_id, None)
