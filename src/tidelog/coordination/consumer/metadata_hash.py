"""The number that stands for everything about a group's topics that its assignment depends on (KIP-1101).

It is written down with the group's epoch, so it has to be Kafka's own to the bit: a Kafka that takes over the log would
otherwise see changed topics, and rebalance every group. XXH3 over little-endian numbers and UTF-16 strings behind which their
length stands; a topic's own hash begins with a byte for the kind of hash, 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

import xxhash

from tidelog.coordination.topics_view import TopicsView, TopicView
from tidelog.model.ids import PartitionIndex, TopicName

_INT = Struct("<i")
_LONG = Struct("<q")
_KIND = b"\x00"


class MetadataHashes:
    """Computes the hash of a group's topics; keeps that of each topic as long as the topic stays the same object."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[TopicName, tuple[TopicView, int]] = {}

    def of_group(self, names: Iterable[TopicName], view: TopicsView) -> int:
        """The hash of those topics that exist; 0 where none does."""
        hashes = bytearray()
        for name in sorted(names):
            topic_id = view.topic_ids.get(name)
            if topic_id is not None:
                hashes += _LONG.pack(self._of_topic(view.topics[topic_id], view))
        return _xxh3(hashes) if hashes else 0

    def forget(self, names: Iterable[TopicName]) -> None:
        """The topics have changed."""
        for name in names:
            self._by_topic.pop(name, None)

    def _of_topic(self, topic: TopicView, view: TopicsView) -> int:
        known = self._by_topic.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        result = topic_hash(topic, view)
        self._by_topic[topic.name] = topic, result
        return result


def topic_hash(topic: TopicView, view: TopicsView) -> int:
    """The hash of one topic: its id, name and partitions, and the racks that their replicas stand in."""
    data = bytearray(_KIND)
    data += topic.topic_id[7::-1] + topic.topic_id[:7:-1]
    data += _text(topic.name) + _INT.pack(len(topic.partitions))
    for index in range(len(topic.partitions)):
        data += _INT.pack(index)
        racks = []
        for node_id in topic.partitions[PartitionIndex(index)].replicas:
            broker = view.brokers.get(node_id)
            if broker is not None and broker.rack is not None:
                racks.append(broker.rack)
        for rack in sorted(racks):
            text = _text(rack)
            # The length stands on both sides: once as Kafka's own, once as the string's.
            data += text[-_INT.size :] + text
    return _xxh3(data)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)


def _xxh3(data: bytearray) -> int:
    number = xxhash.xxh3_64_intdigest(bytes(data))
    return number - (1 << 64) if number >= 1 << 63 else number
