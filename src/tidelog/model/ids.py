"""Names for the numbers and byte strings that identify things in a cluster.

Each is a `NewType`: free at run time, and a type checker keeps an offset from being passed where an epoch is meant.
A topic id or directory id is its 16 raw bytes, the form that is compared and sent; people read it as Kafka's url-safe
base64 without padding (`uuid_to_text`).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from random import Random
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
NodeId = NewType("NodeId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
PartitionIndex = NewType("PartitionIndex", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TimestampMs = NewType("TimestampMs", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)
DirectoryId = NewType("DirectoryId", bytes)

UUID_BYTES = 16
ZERO_UUID = bytes(UUID_BYTES)

# Places in the list of a partition's directories that name no directory (KIP-858).
MIGRATING_DIRECTORY = DirectoryId(ZERO_UUID)
"""A replica from before directories had ids: somewhere on its broker."""
UNASSIGNED_DIRECTORY = DirectoryId((1).to_bytes(UUID_BYTES, "big"))
"""A replica for which its broker has yet to choose a directory."""
LOST_DIRECTORY = DirectoryId((2).to_bytes(UUID_BYTES, "big"))
"""A replica in a directory that is offline, whichever it was."""
# The first hundred ids are Kafka's own.
_RESERVED_UUIDS = 100

NO_OFFSET = Offset(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
NO_TIMESTAMP = TimestampMs(-1)


class TopicPartition(NamedTuple):
    """One partition of a topic, by name. Prints as the name of its directory."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def random_uuid(random: Random) -> bytes:
    """A new id for a topic, a directory or an incarnation: version 4, as Java makes them.

    Never one of the reserved ones, nor one whose text begins with a dash, which a command line would take for an option.
    """
    while True:
        uuid = bytearray(random.randbytes(UUID_BYTES))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if not uuid_to_text(uuid).startswith("-"):
            return bytes(uuid)


def is_reserved(uuid: bytes) -> bool:
    """Whether an id stands for something else than a topic or directory."""
    return int.from_bytes(uuid, "big") < _RESERVED_UUIDS


def uuid_to_text(uuid: bytes | bytearray) -> str:
    """The 22 characters by which Kafka's files and tools name an id."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The id that `uuid_to_text` wrote. ValueError for anything else."""
    try:
        uuid = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        uuid = b""
    if len(uuid) != UUID_BYTES or uuid_to_text(uuid) != text.rstrip("="):
        raise ValueError(f"{text!r} is not an id: expected 22 characters of url-safe base64")
    return uuid
