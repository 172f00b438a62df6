"""A partition of a topic as one share group has it: what state is kept under, and by which its coordinator is found."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.model.ids import PartitionIndex, TopicId, uuid_from_text, uuid_to_text

_SEPARATOR = ":"
# Group, topic id and partition.
_PARTS = 3
_INT32_MAX = 2**31 - 1
_NUMBER = re.compile(r"[+-]?\d{1,10}")


class SharePartitionKey(NamedTuple):
    """Topics go by their id: one that is made anew under an old name begins anew."""

    group_id: str
    topic_id: TopicId
    partition: PartitionIndex

    def __str__(self) -> str:
        """As FindCoordinator has it, and as it is hashed: `group:topic id:partition`."""
        return f"{self.group_id}{_SEPARATOR}{uuid_to_text(self.topic_id)}{_SEPARATOR}{self.partition}"

    @classmethod
    def of_text(cls, text: str) -> SharePartitionKey:
        """The key that a text stands for. Read from its end: a group's id may hold colons. ValueError for any other."""
        # Java's split, by which Kafka reads it, drops what is empty at the end.
        parts = text.rstrip(_SEPARATOR).rsplit(_SEPARATOR, _PARTS - 1)
        if len(parts) < _PARTS or not parts[0].strip():
            raise ValueError(f"{text!r} is not a key of the form group:topic id:partition")
        group_id, topic_id, partition = parts
        index = int(partition) if _NUMBER.fullmatch(partition) else None
        if index is None or not -_INT32_MAX - 1 <= index <= _INT32_MAX:
            raise ValueError(f"{partition} is not the number of a partition")
        return cls(group_id, TopicId(uuid_from_text(topic_id)), PartitionIndex(index))
