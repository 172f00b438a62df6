"""What classic consumers put into JoinGroup and SyncGroup as opaque bytes, behind an int16 of the version.

v1 owned partitions (KIP-429) · v2 generation · v3 rack. A newer version is read as the newest that is known.
"""

from tidelog.wire.schema import Array, Bytes, Int32, Message, String, Struct, since


class TopicPartition(Struct):
    topic: String
    partitions: Array[Int32]


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: Array[String]
    user_data: Bytes | None = None
    owned_partitions: Array[TopicPartition] = since(1, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: String | None = since(3, default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: Array[TopicPartition]
    user_data: Bytes | None = None
