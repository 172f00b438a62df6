# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""Reads the requests that members of groups send all day, each in one pass: Heartbeat, ConsumerGroupHeartbeat, OffsetCommit.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(another version, tagged fields, names that are not plain ASCII, a member that has news) is None, and the request goes the
ordinary way, which knows what to say to it. Nothing of the frame is changed.

A commit's records are made here as well, in one pass: what `records.build_batch` makes of OffsetCommitKey and
OffsetCommitValue version 4, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.crc32c import crc32c

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    from typing import Protocol

    import cython

    class Committed(Protocol):
        """What a record says of a partition."""

        offset: int
        leader_epoch: int
        metadata: str
        commit_timestamp_ms: int
        topic_id: bytes

else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.tidelog.wire.kernels.frame_bytes import (
        bytes_of,
        header_end,
        int16,
        int32,
        int64,
        length_at,
        put16,
        put32,
        put64,
        put_bytes,
        put_varint,
        record_body_bytes,
        room_in,
        text_at,
        varint_bytes,
    )
else:
    from tidelog.wire.kernels._plain_frame_bytes import (
        bytes_of,
        header_end,
        int16,
        int32,
        int64,
        length_at,
        put16,
        put32,
        put64,
        put_bytes,
        put_varint,
        record_body_bytes,
        room_in,
        text_at,
        varint_bytes,
    )

HEARTBEAT_KEY = 12
OFFSET_COMMIT_KEY = 8
CONSUMER_HEARTBEAT_KEY = 68

COMMIT_VERSION_MIN = 6
"""The first version with a leader epoch, and without a time of retention since the one before."""
COMMIT_VERSION_MAX = 10
HEARTBEAT_VERSION_MAX = 4
CONSUMER_HEARTBEAT_VERSION_MAX = 1

_COMMIT_FLEXIBLE = cython.declare(cython.longlong, 8)
_COMMIT_INSTANCE = cython.declare(cython.longlong, 7)
_COMMIT_TOPIC_ID = cython.declare(cython.longlong, 10)
_HEARTBEAT_FLEXIBLE = cython.declare(cython.longlong, 4)
_HEARTBEAT_INSTANCE = cython.declare(cython.longlong, 3)

# The smallest partition of a commit that a request can name: what bounds its announced number.
_PARTITION_BYTES_MIN = cython.declare(cython.longlong, 17)

_BATCH_OVERHEAD = cython.declare(cython.longlong, 12)
_HEADER_BYTES = cython.declare(cython.longlong, 61)
_CRC_AT = cython.declare(cython.longlong, 17)
_CHECKED_AT = cython.declare(cython.longlong, 21)
_ATTRIBUTES_AT = cython.declare(cython.longlong, 21)
_TRANSACTIONAL = cython.declare(cython.longlong, 0x10)

# What a key's length can say.
_NAME_BYTES_MAX = cython.declare(cython.longlong, 2**15 - 1)
_NO_TOPIC_ID = bytes(16)

# Without metadata, names and topic id: type, two lengths, partition; version, offset, epoch, commit time, tagged fields.
_KEY_BYTES = cython.declare(cython.longlong, 10)
_VALUE_BYTES = cython.declare(cython.longlong, 23)
_TOPIC_ID_BYTES = cython.declare(cython.longlong, 18)


def read_heartbeat(frame: memoryview) -> tuple[int, int, str, int, str, str | None] | None:
    """Version, correlation id, group, generation, member and instance; None for a request that is not to be read here."""
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    length: cython.longlong
    version: cython.longlong
    generation: cython.longlong
    is_flexible: cython.bint
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != HEARTBEAT_KEY or version < 0 or version > HEARTBEAT_VERSION_MAX:
        return None
    is_flexible = version >= _HEARTBEAT_FLEXIBLE
    at = header_end(data, end, is_flexible)
    if at < 0:
        return None
    length, at = length_at(data, at, end, is_flexible, True)
    group = text_at(data, at, end, length)
    if group is None:
        return None
    at += length
    if end - at < 4:
        return None
    generation = int32(data, at)
    length, at = length_at(data, at + 4, end, is_flexible, True)
    member = text_at(data, at, end, length)
    if member is None:
        return None
    at += length
    instance = None
    if version >= _HEARTBEAT_INSTANCE:
        length, at = length_at(data, at, end, is_flexible, True)
        if length != -1:
            instance = text_at(data, at, end, length)
            if instance is None:
                return None
            at += length
    if is_flexible:
        if at >= end or data[at] != 0:
            return None
        at += 1
    if at != end:
        return None
    return version, int32(data, 4), group, generation, member, instance


def read_consumer_heartbeat(frame: memoryview) -> tuple[int, int, str, str, str, int, str | None, str | None] | None:
    """Version, correlation id, client id, group, member, its epoch, instance and rack, of a member that has no news.

    None for a request that is not to be read here.
    """
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    tail: cython.Py_ssize_t
    length: cython.longlong
    version: cython.longlong
    epoch: cython.longlong
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != CONSUMER_HEARTBEAT_KEY or version < 0 or version > CONSUMER_HEARTBEAT_VERSION_MAX:
        return None
    at = header_end(data, end, True)
    if at < 0:
        return None
    length = int16(data, 8)
    client = "" if length <= 0 else text_at(data, 10, end, length)
    length, at = length_at(data, at, end, True, True)
    group = text_at(data, at, end, length)
    if group is None:
        return None
    length, at = length_at(data, at + length, end, True, True)
    member = text_at(data, at, end, length)
    if member is None:
        return None
    at += length
    if end - at < 4:
        return None
    epoch = int32(data, at)
    at += 4
    instance = rack = None
    length, at = length_at(data, at, end, True, True)
    if length != -1:
        instance = text_at(data, at, end, length)
        if instance is None:
            return None
        at += length
    length, at = length_at(data, at, end, True, True)
    if length != -1:
        rack = text_at(data, at, end, length)
        if rack is None:
            return None
        at += length
    # No time-out, and no names, expression, assignor or partitions; then no tagged fields.
    tail = 5 if version >= 1 else 4
    if end - at != 4 + tail or int32(data, at) != -1:
        return None
    at += 4
    while at < end:
        if data[at] != 0:
            return None
        at += 1
    return version, int32(data, 4), client, group, member, epoch, instance, rack


def read_offset_commit(
    frame: memoryview,
) -> tuple[int, int, str, int, str, str | None, list[tuple[bytes, int, int, int, str]], bytes] | None:
    """Version, correlation id, group, generation or epoch, member, instance, what is committed, and the answer if all of it is.

    The answer has its size in front. None for a request that is not to be read here.

    Of each partition: the topic (its name, or from v10 on its id; one object for all partitions of a topic), the index, the
    offset, the leader's epoch (-1: none) and the metadata.
    """
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    place: cython.Py_ssize_t
    filled: cython.Py_ssize_t
    length: cython.longlong
    version: cython.longlong
    generation: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    index: cython.longlong
    offset: cython.longlong
    epoch: cython.longlong
    is_flexible: cython.bint
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != OFFSET_COMMIT_KEY or version < COMMIT_VERSION_MIN or version > COMMIT_VERSION_MAX:
        return None
    is_flexible = version >= _COMMIT_FLEXIBLE
    at = header_end(data, end, is_flexible)
    if at < 0:
        return None
    length, at = length_at(data, at, end, is_flexible, True)
    group = text_at(data, at, end, length)
    if group is None:
        return None
    at += length
    if end - at < 4:
        return None
    generation = int32(data, at)
    length, at = length_at(data, at + 4, end, is_flexible, True)
    member = text_at(data, at, end, length)
    if member is None:
        return None
    at += length
    instance = None
    if version >= _COMMIT_INSTANCE:
        length, at = length_at(data, at, end, is_flexible, True)
        if length != -1:
            instance = text_at(data, at, end, length)
            if instance is None:
                return None
            at += length

    # The answer repeats topics and partitions as they stand here, and takes no more room than they do: size, correlation id,
    # its tagged fields, throttling.
    answer = bytearray(end + 16)
    out: cython.pointer[cython.uchar] = room_in(answer)
    filled = 13 if is_flexible else 12
    start = at
    topic_count, at = length_at(data, at, end, is_flexible, False)
    if topic_count <= 0 or topic_count > end // _PARTITION_BYTES_MIN:
        return None
    for place in range(start, at):
        out[filled] = data[place]
        filled += 1
    commits: list[tuple[bytes, int, int, int, str]] = []
    previous: bytes = b""
    while topic_count > 0:
        topic_count -= 1
        start = at
        length = 16
        if version < _COMMIT_TOPIC_ID:
            length, at = length_at(data, at, end, is_flexible, True)
        if length <= 0 or end - at < length:
            return None
        if cython.compiled:
            topic: bytes = PyBytes_FromStringAndSize(
                cython.cast(cython.pointer[cython.const[cython.char]], cython.address(data[at])), length
            )
        else:
            topic = bytes(data[at : at + length])
        if topic == previous:
            return None
        previous = topic
        partition_count, at = length_at(data, at + length, end, is_flexible, False)
        if partition_count <= 0 or partition_count > end // _PARTITION_BYTES_MIN:
            return None
        for place in range(start, at):
            out[filled] = data[place]
            filled += 1
        while partition_count > 0:
            partition_count -= 1
            if end - at < 17:
                return None
            index = int32(data, at)
            offset = int64(data, at + 4)
            epoch = int32(data, at + 12)
            for place in range(at, at + 4):
                out[filled] = data[place]
                filled += 1
            # No error.
            filled += 2
            length, at = length_at(data, at + 16, end, is_flexible, True)
            metadata = "" if length == -1 else text_at(data, at, end, length)
            if metadata is None:
                return None
            if length > 0:
                at += length
            if is_flexible:
                if at >= end or data[at] != 0:
                    return None
                at += 1
                filled += 1
            commits.append((topic, index, offset, epoch, metadata))
        if is_flexible:
            if at >= end or data[at] != 0:
                return None
            at += 1
            filled += 1
    if is_flexible:
        if at >= end or data[at] != 0:
            return None
        at += 1
        filled += 1
    if at != end:
        return None
    put32(out, 0, filled - 4)
    for place in range(4):
        out[4 + place] = data[4 + place]
    if cython.compiled:
        answered: bytes = PyBytes_FromStringAndSize(cython.cast(cython.pointer[cython.const[cython.char]], out), filled)
    else:
        answered = bytes(answer[:filled])
    return version, int32(data, 4), group, generation, member, instance, commits, answered


# --- records ---------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_bytes(metadata_bytes: cython.longlong, has_topic_id: cython.bint) -> cython.longlong:
    size: cython.longlong = _VALUE_BYTES + varint_bytes(metadata_bytes + 1, 0) + metadata_bytes
    return size + _TOPIC_ID_BYTES if has_topic_id else size


def offset_commit_batch(
    group_id: str,
    rows: list[tuple[str, int, Committed]],
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
) -> bytearray | None:
    """The batch of a commit, of each partition the topic, the index and the offset; None for a name that no record can hold.

    With a producer (-1: none) it belongs to its transaction.
    """
    at: cython.Py_ssize_t = _HEADER_BYTES
    size: cython.longlong = _HEADER_BYTES
    key_bytes: cython.longlong
    value_bytes: cython.longlong
    body_bytes: cython.longlong
    number: cython.longlong
    count: cython.longlong = len(rows)
    timestamp: cython.longlong = timestamp_ms
    has_topic_id: cython.bint
    group: bytes = group_id.encode()
    name: bytes = b""
    text: bytes
    topic_id: bytes
    last: object = None
    if len(group) > _NAME_BYTES_MAX:
        return None
    encoded: list[tuple[bytes, bytes, bytes]] = []
    for number in range(count):
        topic, _, committed = rows[number]
        if topic is not last:
            last = topic
            name = topic.encode()
            if len(name) > _NAME_BYTES_MAX:
                return None
        text = committed.metadata.encode()
        topic_id = committed.topic_id
        encoded.append((name, text, topic_id))
        key_bytes = _KEY_BYTES + len(group) + len(name)
        body_bytes = record_body_bytes(number, key_bytes, _value_bytes(len(text), topic_id != _NO_TOPIC_ID))
        size += varint_bytes(body_bytes, 1) + body_bytes
    batch = bytearray(size)
    out: cython.pointer[cython.uchar] = room_in(batch)
    for number in range(count):
        name, text, topic_id = encoded[number]
        committed = rows[number][2]
        has_topic_id = topic_id != _NO_TOPIC_ID
        key_bytes = _KEY_BYTES + len(group) + len(name)
        value_bytes = _value_bytes(len(text), has_topic_id)
        at = put_varint(out, at, record_body_bytes(number, key_bytes, value_bytes), 1)
        # No attributes, and the batch's own time.
        at = put_varint(out, at + 2, number, 1)
        at = put_varint(out, at, key_bytes, 1)
        put16(out, at, 1)
        put16(out, at + 2, len(group))
        at = put_bytes(out, at + 4, group)
        put16(out, at, len(name))
        at = put_bytes(out, at + 2, name)
        put32(out, at, rows[number][1])
        at = put_varint(out, at + 4, value_bytes, 1)
        put16(out, at, 4)
        put64(out, at + 2, committed.offset)
        put32(out, at + 10, committed.leader_epoch)
        at = put_varint(out, at + 14, len(text) + 1, 0)
        at = put_bytes(out, at, text)
        put64(out, at, committed.commit_timestamp_ms)
        if has_topic_id:
            # One tagged field, the first, of 16 bytes.
            out[at + 8] = 1
            out[at + 10] = 16
            at = put_bytes(out, at + 11, topic_id)
        else:
            at += 9
        # No headers.
        at += 1
    put32(out, 8, size - _BATCH_OVERHEAD)
    put32(out, 12, -1)
    out[16] = 2
    put32(out, 23, count - 1)
    put64(out, 27, timestamp)
    put64(out, 35, timestamp)
    # No sequence numbers, nor a producer.
    for number in range(43, 57):
        out[number] = 0xFF
    if producer_id >= 0:
        out[_ATTRIBUTES_AT + 1] = _TRANSACTIONAL
        put64(out, 43, producer_id)
        put16(out, 51, producer_epoch)
    put32(out, 57, count)
    put32(out, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_AT:]))
    return batch
