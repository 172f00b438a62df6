"""A node that coordinates share groups and keeps their states, on a simulated disk and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import NoReturn

from tests.unit.broker.group_node import GroupNode
from tidelog.broker.requests.caller import Authorizer
from tidelog.broker.share.cluster_persister import ClusterPersister
from tidelog.broker.share.group_states import GroupStates
from tidelog.broker.share.partition_ends import PartitionEnds
from tidelog.broker.share.share_coordinator import ShareCoordinator
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.ids import NodeId
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.model.share_coordinator_config import SHARE_COORDINATOR_KEYS
from tidelog.net.node_connection import Event
from tidelog.replication.leader_link import LeaderLink
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.schema import MetadataRecord


class ShareNode(GroupNode):
    """Leads everything from the start. `settings` are keys of the share coordinator, with underscores."""

    def __init__(self, *, authorizer: Authorizer | None = None, **settings: str) -> None:
        self._is_coordinating = False
        super().__init__(authorizer=authorizer)
        self._share_settings = {
            f"share.coordinator.{name.replace('_', '.')}": value for name, value in settings.items()
        }
        self.commit(FeatureLevelRecord(name="share.version", feature_level=1))
        self._start_share_coordinator()
        self.create_topic(SHARE_GROUP_STATE, partitions=3)

    def _start_share_coordinator(self) -> None:
        config = SHARE_COORDINATOR_KEYS.parse(self._share_settings)
        self.share_coordinator = ShareCoordinator(self, config, self.seams, self.timers, nullcontext())
        self.persister = ClusterPersister(
            self,
            self.share_coordinator,
            self.internal_topics,
            self.link_to,
            self.timers,
            Random(7),
            nullcontext(),
        )
        ends = PartitionEnds(self, self.link_to, nullcontext())
        self.group_states = GroupStates(self.groups, self.persister, ends)
        self.share_coordinator.start()
        self._is_coordinating = True

    def link_to(self, broker: NodeId, purpose: str) -> LeaderLink:
        """Nobody knows where another broker is."""

        def dial(host: str, port: int, on_event: Callable[[Event], None]) -> NoReturn:
            raise AssertionError(f"{purpose} for broker {broker} at {host}:{port}, {on_event}")

        return LeaderLink(dial, lambda: None, purpose)

    def commit(self, *records: MetadataRecord) -> None:
        before = self.image
        super().commit(*records)
        if self._is_coordinating:
            delta = ImageDelta(before)
            for record in records:
                delta.apply(record, self.image.offset)
            self.share_coordinator.follow(self.image, delta)
            self.persister.follow(self.image)

    def restart_share_coordinator(self) -> None:
        """As after a crash: nothing is known but what is in the log."""
        self.persister.stop()
        self.share_coordinator.stop()
        self.restart(cleanly=False)
        self._start_share_coordinator()
        self.share_coordinator.follow(self.image)
