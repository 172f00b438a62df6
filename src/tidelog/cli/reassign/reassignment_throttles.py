"""Throttles for a reassignment: the topics list their replicas that are on the move, the brokers get a rate.

They are Kafka's own keys, so that what one tool has set another one takes away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.cli.reassign.reassignment_plan import Place, Replicas
from tidelog.client.admin import (
    AsyncAdmin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceKind,
    value_of,
)

Changes = dict[ConfigResource, list[ConfigChange]]

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttled_replicas(
    current: Mapping[Place, Replicas], target: Mapping[Place, Replicas]
) -> dict[str, dict[str, str]]:
    """What each topic is to list: whoever has a partition may lead it, and whoever gets it follows."""
    leading: dict[str, set[tuple[int, int]]] = {}
    following: dict[str, set[tuple[int, int]]] = {}
    for (topic, index), replicas in target.items():
        present = current[topic, index]
        coming = [node for node in replicas if node not in present]
        if coming:
            leading.setdefault(topic, set()).update((index, node) for node in present)
            following.setdefault(topic, set()).update((index, node) for node in coming)
    return {
        topic: {LEADER_REPLICAS: _listed(leading[topic]), FOLLOWER_REPLICAS: _listed(following[topic])}
        for topic in leading
    }


def _listed(replicas: Iterable[tuple[int, int]]) -> str:
    return ",".join(f"{index}:{node}" for index, node in sorted(replicas))


async def set_throttles(
    admin: AsyncAdmin, current: Mapping[Place, Replicas], target: Mapping[Place, Replicas], bytes_per_second: int
) -> Changes:
    """Before the reassignment, so that it never goes without them. Gives the changes that bring back what was set before."""
    changes: Changes = {}
    for topic, values in throttled_replicas(current, target).items():
        changes[ConfigResource(ResourceKind.TOPIC, topic)] = [
            ConfigChange(name, ConfigOperation.SET, value) for name, value in values.items()
        ]
    nodes = {node for place, replicas in target.items() for node in (*current[place], *replicas)}
    # A broker that is gone for good sends nothing, and cannot be told.
    serving = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    for node in sorted(nodes & serving):
        changes[ConfigResource(ResourceKind.BROKER, str(node))] = [
            ConfigChange(name, ConfigOperation.SET, str(bytes_per_second)) for name in (LEADER_RATE, FOLLOWER_RATE)
        ]
    before = await _before(admin, changes)
    await change_throttles(admin, changes)
    return before


async def _before(admin: AsyncAdmin, changes: Changes) -> Changes:
    """What takes changes back: a throttle that somebody has set for reasons of their own stays."""
    described = await admin.describe_configs(changes)
    before: Changes = {}
    for resource, planned in changes.items():
        entries = value_of(described[resource])
        before[resource] = [
            ConfigChange(change.name, ConfigOperation.SET, entry.value)
            if (entry := entries.get(change.name)) is not None
            and entry.source in {ConfigSource.TOPIC, ConfigSource.BROKER}
            else ConfigChange(change.name, ConfigOperation.DELETE)
            for change in planned
        ]
    return before


async def change_throttles(admin: AsyncAdmin, changes: Changes) -> None:
    for outcome in (await admin.incremental_alter_configs(changes)).values():
        value_of(outcome)


async def clear_throttles(admin: AsyncAdmin, topics: Iterable[str]) -> None:
    """Take them away, of these topics and of all brokers: nobody knows any more what was set before."""
    changes: Changes = {}
    for topic in sorted(set(topics)):
        changes[ConfigResource(ResourceKind.TOPIC, topic)] = [
            ConfigChange(name, ConfigOperation.DELETE) for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        ]
    for broker in (await admin.describe_cluster()).brokers:
        changes[ConfigResource(ResourceKind.BROKER, str(broker.node_id))] = [
            ConfigChange(name, ConfigOperation.DELETE) for name in (LEADER_RATE, FOLLOWER_RATE)
        ]
    await change_throttles(admin, changes)
