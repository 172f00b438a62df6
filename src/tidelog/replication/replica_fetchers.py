"""The fetchers of a node, one for each broker that leads something it follows."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.ids import NodeId
from tidelog.replication.partition import Partition
from tidelog.replication.replica_fetcher import ReplicaFetcher
from tidelog.replication.roles import Following


class ReplicaFetchers:
    """Hears of every role that the metadata gives to a partition, and has each followed one fetched by the right fetcher."""

    def __init__(self, new_fetcher: Callable[[NodeId], ReplicaFetcher]) -> None:
        self._new_fetcher = new_fetcher
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._leader_of: dict[Partition, NodeId] = {}
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._leader_of)

    def role_changed(self, partition: Partition) -> None:
        """A partition has got a role, perhaps the one that it had, or is gone."""
        role = partition.role
        leader = role.leader if isinstance(role, Following) and role.leader >= 0 else None
        former = self._leader_of.get(partition)
        if former is not None and former != leader:
            del self._leader_of[partition]
            self._forget(former, partition)
        if leader is not None and not self._is_stopped:
            self._leader_of[partition] = leader
            self._fetcher(leader).follow(partition)

    def stop(self) -> None:
        """Follow nobody any more."""
        self._is_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._leader_of.clear()

    def _fetcher(self, leader: NodeId) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = self._new_fetcher(leader)
        return fetcher

    def _forget(self, leader: NodeId, partition: Partition) -> None:
        fetcher = self._fetchers[leader]
        fetcher.forget(partition)
        if not len(fetcher):
            fetcher.stop()
            del self._fetchers[leader]
