"""The `.snapshot` file beside a segment: the partition's producers, behind an int16 of the version.

`crc` is the CRC-32C of all that follows it.
"""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Message, Struct, UInt32


class ProducerEntry(Struct):
    producer_id: Int64
    epoch: Int16
    last_sequence: Int32
    last_offset: Int64
    offset_delta: Int32
    timestamp: Int64
    coordinator_epoch: Int32
    current_txn_first_offset: Int64


class ProducerSnapshot(Message, versions="1"):
    crc: UInt32
    producer_entries: Array[ProducerEntry]
