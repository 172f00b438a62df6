# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The group coordinator of a node: joins the shards of `coordination` with the node's partitions and the cluster's metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from tidelog.broker.coordinators.coordinator_elections import CoordinatorElections, Hosting
from tidelog.broker.groups.group_limits import group_limits, share_limits, streams_limits
from tidelog.broker.requests.caller import Caller
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import ImageDelta
from tidelog.coordination import decision
from tidelog.coordination.active_shard import ActiveShard
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.decision import Decision
from tidelog.coordination.group_settings import (
    ConsumerGroupLimits,
    GroupSettings,
    MigrationPolicy,
    ShareGroupLimits,
    StreamsGroupLimits,
)
from tidelog.coordination.group_shard import GroupShard
from tidelog.coordination.host import CoordinatorHost, HostSeams
from tidelog.coordination.share.context import Beginning
from tidelog.coordination.share.groups import ask_nobody
from tidelog.model import (
    group_coordinator_config as keys,
    share_group_config as share_keys,
    streams_group_config as streams_keys,
)
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicId
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.model.java_hash import partition_of
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.replication.partition import Partition
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.seams import Seams
from tidelog.wire.compression import Compression
from tidelog.wire.internal_records import CoordinatorLog

if TYPE_CHECKING:
    from tidelog.broker.groups.group_trace import GroupTrace
    from tidelog.coordination.group import Group

A = TypeVar("A")

GROUP_RESOURCE = 32
_GROUP_VERSION = "group.version"
_SHARE_VERSION = "share.version"
_STREAMS_VERSION = "streams.version"
_CONSUMER_PROTOCOL = "consumer"
_STREAMS_PROTOCOL = "streams"
_MS_PER_MINUTE = 60_000
# As in Kafka: while too few replicas are in sync a member waits for its commit time-out and is told to try again, in place of
# being refused at once and coming back at once.
LEADER_ONLY = 1


class _Limits(NamedTuple):
    """What groups whose tasks or partitions the coordinator assigns go by, and which configurations say so."""

    config: ConfigValues
    configs: Mapping[ConfigResource, Mapping[str, str]]
    of_groups: dict[str, ConsumerGroupLimits]
    """Of those with values of their own."""
    of_all_others: ConsumerGroupLimits
    of_share_groups: dict[str, ShareGroupLimits]
    of_all_other_share_groups: ShareGroupLimits
    of_streams_groups: dict[str, StreamsGroupLimits]
    of_all_other_streams_groups: StreamsGroupLimits

    @classmethod
    def of(cls, config: ConfigValues, configs: Mapping[ConfigResource, Mapping[str, str]]) -> _Limits:
        own = {name: values for (kind, name), values in configs.items() if kind == GROUP_RESOURCE and values}
        return cls(
            config,
            configs,
            {name: group_limits(config, values) for name, values in own.items()},
            group_limits(config, {}),
            {name: share_limits(config, values) for name, values in own.items()},
            share_limits(config, {}),
            {name: streams_limits(config, values) for name, values in own.items()},
            streams_limits(config, {}),
        )


class GroupCoordinator:
    """The groups whose partition of `__consumer_offsets` this node leads."""

    def __init__(
        self,
        node: Hosting,
        config: ConfigValues,
        seams: Seams,
        timers: Timers,
        turn: AbstractContextManager[None],
        *,
        config_now: Callable[[], ConfigValues] | None = None,
    ) -> None:
        """`config` is what the node was started with, and `config_now` gives it with what was changed since."""
        self._node = node
        self._config = config
        self._config_now = config_now or (lambda: config)
        protocols = {each.lower() for each in config[keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]}
        self._allows_consumer_protocol = _CONSUMER_PROTOCOL in protocols
        self._allows_streams_protocol = _STREAMS_PROTOCOL in protocols
        self._random: Random = seams.random
        self._limits: _Limits | None = None
        self.settings = group_settings(config, self._limits_of, self._share_limits_of, self.streams_limits_of)
        self.begin_states: Callable[[Beginning], None] = ask_nobody
        """Called with what share groups ask of share coordinators, by whoever has set it."""
        self._elections = CoordinatorElections(node, CONSUMER_OFFSETS, config[keys.OFFSETS_TOPIC_NUM_PARTITIONS])
        self._host: CoordinatorHost[GroupShard] = CoordinatorHost(
            CoordinatorLog.CONSUMER_OFFSETS,
            self._new_shard,
            HostSeams(seams.clock, timers, seams.slow_work, turn),
            required_acks=LEADER_ONLY,
            commit_timeout_ms=config[keys.OFFSETS_COMMIT_TIMEOUT_MS],
            load_buffer_bytes=config[keys.OFFSETS_LOAD_BUFFER_SIZE],
            codec=Compression(config[keys.OFFSETS_TOPIC_COMPRESSION_CODEC]),
        )
        # Looked into with every heartbeat and commit.
        self._shards = self._host.shards
        self.traces: dict[str, GroupTrace] = {}
        """Who listens to a group, by its id. Empty where nobody does, which is all that requests look at."""

    def _new_shard(self, _index: int, _leader_epoch: int, partition: CoordinatorPartition) -> GroupShard:
        return GroupShard(
            self.settings,
            self._random,
            lambda: self._node.image,
            partition,
            self._begin_states,
        )

    def _begin_states(self, beginning: Beginning) -> None:
        self.begin_states(beginning)

    # --- following the cluster ---------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """Lead what the metadata says, after the node's partitions have followed it."""
        self._elections.follow(self._host, image, delta)
        if delta is None:
            return
        removed = list(delta.topics_removed.values())
        changed = [image.topics[each].name for each in delta.topics_changed if each in image.topics]
        if changed or removed:
            self._host.decide_everywhere(lambda shard, now_ms: shard.topics_changed(image, changed, removed, now_ms))

    def stop(self) -> None:
        """The node stops."""
        self._host.close()

    # --- asking ------------------------------------------------------------------------------------------------------------

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether members may use the protocol of KIP-848: the cluster's features and this node's configuration decide."""
        return self._allows_consumer_protocol and bool(self._node.image.features.get(_GROUP_VERSION))

    @property
    def serves_share_protocol(self) -> bool:
        """Whether there may be share groups (KIP-932): the cluster's features alone decide."""
        return bool(self._node.image.features.get(_SHARE_VERSION))

    @property
    def serves_streams_protocol(self) -> bool:
        """Whether there may be streams groups (KIP-1071): the cluster's features and this node's configuration decide."""
        return self._allows_streams_protocol and bool(self._node.image.features.get(_STREAMS_VERSION))

    def topic_name(self, topic_id: TopicId) -> str:
        """The name of a topic that a group has a state of; empty where it is gone."""
        topic = self._node.image.topics.get(topic_id)
        return "" if topic is None else topic.name

    def partition_of(self, group_id: str) -> int:
        return self._elections.partition_of(group_id)

    def leader_of(self, group_id: str) -> NodeId | None:
        """The broker that coordinates a group at the moment."""
        return self._elections.leader_of(group_id)

    def partition_for(self, group_id: str) -> Partition | ErrorCode:
        """The replica that a group's offsets are written to, where this node coordinates the group."""
        index = self.partition_of(group_id)
        shard = self._host.shard(index)
        if isinstance(shard, ErrorCode):
            return shard
        return self._node.partitions.named(CONSUMER_OFFSETS).get(index) or ErrorCode.NOT_COORDINATOR

    def end_transaction(self, index: int, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]:
        """Write the marker of a transaction that has committed offsets in one partition of the log, and take them in."""
        return self._host.end_transaction(index, marker)

    def decide(
        self, group_id: str, decide: Callable[[GroupShard, int], Decision[A]], refuse: Callable[[ErrorCode], A]
    ) -> A | Pending[A]:
        """Have the shard of a group decide."""
        if self.traces and group_id in self.traces:
            self.traces[group_id].look()
        return self._host.decide(partition_of(group_id, self._elections.partition_count), decide, refuse)

    def read(self, group_id: str, read: Callable[[GroupShard], A], refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        """What the shard of a group knows, once that is committed."""
        return self._host.read(self.partition_of(group_id), read, refuse)

    def read_committed(self, group_id: str, read: Callable[[GroupShard], A], refuse: Callable[[ErrorCode], A]) -> A:
        """What the shard of a group can say at once, of what is committed."""
        return self._host.read_committed(self.partition_of(group_id), read, refuse)

    def active(self, group_id: str) -> ActiveShard | None:
        """The shard of a group with its partition of the log, if it is here and decides. Where it is not: see `refusal`."""
        state = self._shards.get(partition_of(group_id, self._elections.partition_count))
        if self.traces and group_id in self.traces:
            self.traces[group_id].look()
        return state if type(state) is ActiveShard else None

    def refusal(self, group_id: str) -> ErrorCode:
        """Why no shard of this node decides about a group."""
        return self._host.refusal(self.partition_of(group_id))

    def committed_group(self, group_id: str) -> Group | None:
        """A group as of the committed records; None where this node does not coordinate it, or there is none."""
        return self._host.read_committed(
            self.partition_of(group_id), lambda shard: shard.groups.committed(group_id), lambda _error: None
        )

    @property
    def is_loading(self) -> bool:
        """Whether some group that belongs here may not be known yet."""
        return self._host.is_loading

    def shards(self) -> Iterator[GroupShard]:
        return self._host.active_shards()

    def _limits_of(self, group_id: str) -> ConsumerGroupLimits:
        """What a consumer group goes by: its own values, within the bounds that the broker sets, or else the broker's."""
        known = self._limits_now()
        return known.of_groups.get(group_id, known.of_all_others)

    def _share_limits_of(self, group_id: str) -> ShareGroupLimits:
        """The same of a share group."""
        known = self._limits_now()
        return known.of_share_groups.get(group_id, known.of_all_other_share_groups)

    def streams_limits_of(self, group_id: str) -> StreamsGroupLimits:
        """The same of a streams group."""
        known = self._limits_now()
        return known.of_streams_groups.get(group_id, known.of_all_other_streams_groups)

    def _limits_now(self) -> _Limits:
        config, configs = self._config_now(), self._node.image.configs
        # Asked with every heartbeat, and the same for almost all groups.
        known = self._limits
        if known is None or known.config is not config or known.configs is not configs:
            known = self._limits = _Limits.of(config, configs)
        return known


def group_settings(
    config: ConfigValues,
    limits_of: Callable[[str], ConsumerGroupLimits],
    share_limits_of: Callable[[str], ShareGroupLimits],
    streams_limits_of: Callable[[str], StreamsGroupLimits],
) -> GroupSettings:
    """What a broker's configuration says about groups."""
    return GroupSettings(
        min_session_timeout_ms=config[keys.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[keys.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS],
        max_size=config[keys.GROUP_MAX_SIZE],
        consumer_assignors=config[keys.GROUP_CONSUMER_ASSIGNORS],
        consumer_max_size=config[keys.GROUP_CONSUMER_MAX_SIZE],
        consumer_migration_policy=MigrationPolicy(config[keys.GROUP_CONSUMER_MIGRATION_POLICY].lower()),
        consumer_regex_refresh_interval_ms=config[keys.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS],
        consumer_limits_of=limits_of,
        share_max_size=config[share_keys.GROUP_SHARE_MAX_SIZE],
        # Until then the answer to an attempt may be under way still.
        share_initialise_retry_interval_ms=max(
            config[share_keys.GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS], config[keys.OFFSETS_COMMIT_TIMEOUT_MS]
        ),
        share_limits_of=share_limits_of,
        streams_max_size=config[streams_keys.GROUP_STREAMS_MAX_SIZE],
        streams_limits_of=streams_limits_of,
        offset_metadata_max_bytes=config[keys.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=config[keys.OFFSETS_RETENTION_MINUTES] * _MS_PER_MINUTE,
        offsets_retention_check_interval_ms=config[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
    )


def member_of(caller: Caller) -> decision.Caller:
    """Who asks, as a coordinator sees it: the same for all requests of one API that a connection sends in a row."""
    if caller.member is None:
        caller.member = decision.Caller(
            caller.client_id or "", f"/{caller.host}", caller.api_version, caller.may_describe
        )
    return cast("decision.Caller", caller.member)
