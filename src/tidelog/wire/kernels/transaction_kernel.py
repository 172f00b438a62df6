# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""Reads AddPartitionsToTxn in one pass, and makes the records by which a coordinator remembers transactions.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(the version that brokers speak, tagged fields, names that are not plain ASCII) is None, and the request goes the ordinary way,
which knows what to say to it. Nothing of the frame is changed.

The batch of a transactional id's states is what `records.build_batch` makes of TransactionLogKey and TransactionLogValue, byte
for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.crc32c import crc32c

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
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

ADD_PARTITIONS_KEY = 24

ADD_PARTITIONS_VERSION_MAX = 3
"""The last version of clients; later ones are spoken between brokers."""

_FLEXIBLE = cython.declare(cython.longlong, 3)

# The smallest topic that a request can name: what bounds its announced number.
_TOPIC_BYTES_MIN = cython.declare(cython.longlong, 3)
# Of a partition: its index in the request, and with its error in the answer.
_INDEX_BYTES = cython.declare(cython.longlong, 4)

_BATCH_OVERHEAD = cython.declare(cython.longlong, 12)
_HEADER_BYTES = cython.declare(cython.longlong, 61)
_CRC_AT = cython.declare(cython.longlong, 17)
_CHECKED_AT = cython.declare(cython.longlong, 21)

# Version and length of the id. Version, producer's id and epoch, time-out, state; then the partitions; two times.
_KEY_BYTES = cython.declare(cython.longlong, 4)
_VALUE_BYTES = cython.declare(cython.longlong, 33)


# --- requests ----------------------------------------------------------------------------------------------------------------


def read_add_partitions(frame: memoryview) -> tuple[int, int, str, int, int, list[tuple[str, list[int]]], bytes] | None:
    """Version, correlation id, transactional id, producer's id and epoch, the partitions of each topic, and the answer if all of
    them are added, with its size in front.

    None for a request that is not to be read here.
    """
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    place: cython.Py_ssize_t
    filled: cython.Py_ssize_t
    length: cython.longlong
    version: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    is_flexible: cython.bint
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != ADD_PARTITIONS_KEY or version < 0 or version > ADD_PARTITIONS_VERSION_MAX:
        return None
    is_flexible = version >= _FLEXIBLE
    at = header_end(data, end, is_flexible)
    if at < 0:
        return None
    length, at = length_at(data, at, end, is_flexible, True)
    transactional_id = text_at(data, at, end, length)
    if transactional_id is None:
        return None
    at += length
    if end - at < 10:
        return None
    producer_id = int64(data, at)
    producer_epoch = int16(data, at + 8)
    at += 10

    # The answer repeats topics and partitions as they stand here, with room for the error of each partition, which is none:
    # never more than twice what they take.
    answer = bytearray(2 * end + 16)
    out: cython.pointer[cython.uchar] = room_in(answer)
    filled = 13 if is_flexible else 12
    start = at
    topic_count, at = length_at(data, at, end, is_flexible, False)
    if topic_count <= 0 or topic_count > end // _TOPIC_BYTES_MIN:
        return None
    for place in range(start, at):
        out[filled] = data[place]
        filled += 1
    topics: list[tuple[str, list[int]]] = []
    while topic_count > 0:
        topic_count -= 1
        start = at
        length, at = length_at(data, at, end, is_flexible, True)
        name = text_at(data, at, end, length)
        if name is None:
            return None
        partition_count, at = length_at(data, at + length, end, is_flexible, False)
        if partition_count <= 0 or partition_count > (end - at) // _INDEX_BYTES:
            return None
        for place in range(start, at):
            out[filled] = data[place]
            filled += 1
        partitions: list[int] = []
        while partition_count > 0:
            partition_count -= 1
            partitions.append(int32(data, at))
            for place in range(at, at + 4):
                out[filled] = data[place]
                filled += 1
            at += 4
            filled += 3 if is_flexible else 2
        if is_flexible:
            if at >= end or data[at] != 0:
                return None
            at += 1
            filled += 1
        topics.append((name, partitions))
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
    return (
        version,
        int32(data, 4),
        transactional_id,
        producer_id,
        producer_epoch,
        topics,
        bytes(answer[:filled]),
    )


# --- records -----------------------------------------------------------------------------------------------------------------


# Producer's id and epoch, time-out, state; by topic the name and the partitions, or None; last update and start; the previous
# and the next producer's id, the next epoch, the client's version.
State = tuple[int, int, int, int, "list[tuple[bytes, list[int]]] | None", int, int, int, int, int, int]


@cython.cfunc
def _value_bytes(state: tuple, is_tagged: cython.bint) -> cython.longlong:  # type: ignore[type-arg]
    size: cython.longlong = _VALUE_BYTES
    topics: list | None = state[4]  # type: ignore[type-arg]
    name: bytes
    count: cython.longlong
    if not is_tagged:
        size += 4
        if topics is not None:
            for name, partitions in topics:
                size += 6 + len(name) + 4 * len(partitions)
        return size
    size += 1 if topics is None else varint_bytes(len(topics) + 1, 0)
    if topics is not None:
        for name, partitions in topics:
            count = len(partitions)
            size += varint_bytes(len(name) + 1, 0) + len(name) + varint_bytes(count + 1, 0) + 4 * count + 1
    # How many tagged fields there are; of each the tag and the size.
    size += 1
    if state[7] != -1:
        size += 10
    if state[8] != -1:
        size += 10
    if state[10] != 0:
        size += 4
    if state[9] != -1:
        size += 4
    return size


@cython.cfunc
def _put_value(
    out: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
    state: tuple,  # type: ignore[type-arg]
    is_tagged: cython.bint,
) -> cython.Py_ssize_t:
    """Where it ends."""
    topics: list | None = state[4]  # type: ignore[type-arg]
    name: bytes
    index: cython.longlong
    tags_at: cython.Py_ssize_t
    put16(out, at, 1 if is_tagged else 0)
    put64(out, at + 2, state[0])
    put16(out, at + 10, state[1])
    put32(out, at + 12, state[2])
    out[at + 16] = state[3]
    at += 17
    if topics is None:
        if is_tagged:
            out[at] = 0
            at += 1
        else:
            put32(out, at, -1)
            at += 4
    else:
        if is_tagged:
            at = put_varint(out, at, len(topics) + 1, 0)
        else:
            put32(out, at, len(topics))
            at += 4
        for name, partitions in topics:
            if is_tagged:
                at = put_bytes(out, put_varint(out, at, len(name) + 1, 0), name)
                at = put_varint(out, at, len(partitions) + 1, 0)
            else:
                put16(out, at, len(name))
                at = put_bytes(out, at + 2, name)
                put32(out, at, len(partitions))
                at += 4
            for index in partitions:
                put32(out, at, index)
                at += 4
            if is_tagged:
                out[at] = 0
                at += 1
    put64(out, at, state[5])
    put64(out, at + 8, state[6])
    at += 16
    if not is_tagged:
        return at
    tags_at = at
    out[tags_at] = 0
    at += 1
    if state[7] != -1:
        out[tags_at] += 1
        out[at] = 0
        out[at + 1] = 8
        put64(out, at + 2, state[7])
        at += 10
    if state[8] != -1:
        out[tags_at] += 1
        out[at] = 1
        out[at + 1] = 8
        put64(out, at + 2, state[8])
        at += 10
    if state[10] != 0:
        out[tags_at] += 1
        out[at] = 2
        out[at + 1] = 2
        put16(out, at + 2, state[10])
        at += 4
    if state[9] != -1:
        out[tags_at] += 1
        out[at] = 3
        out[at + 1] = 2
        put16(out, at + 2, state[9])
        at += 4
    return at


def transaction_state_batch(
    transactional_id: bytes, states: list[State], value_version: int, timestamp_ms: int
) -> bytearray:
    """One batch with the states that an id goes through, one record for each."""
    at: cython.Py_ssize_t = _HEADER_BYTES
    size: cython.longlong = _HEADER_BYTES
    number: cython.longlong
    key_bytes: cython.longlong = _KEY_BYTES + len(transactional_id)
    value_bytes: cython.longlong
    body_bytes: cython.longlong
    count: cython.longlong = len(states)
    timestamp: cython.longlong = timestamp_ms
    is_tagged: cython.bint = value_version >= 1
    for number in range(count):
        body_bytes = record_body_bytes(number, key_bytes, _value_bytes(states[number], is_tagged))
        size += varint_bytes(body_bytes, 1) + body_bytes
    batch = bytearray(size)
    out: cython.pointer[cython.uchar] = room_in(batch)
    for number in range(count):
        value_bytes = _value_bytes(states[number], is_tagged)
        at = put_varint(out, at, record_body_bytes(number, key_bytes, value_bytes), 1)
        # No attributes, and the batch's own time.
        at = put_varint(out, at + 2, number, 1)
        at = put_varint(out, at, key_bytes, 1)
        # Version 0 of the key.
        put16(out, at + 2, len(transactional_id))
        at = put_bytes(out, at + 4, transactional_id)
        at = put_varint(out, at, value_bytes, 1)
        # No headers.
        at = _put_value(out, at, states[number], is_tagged) + 1
    put32(out, 8, size - _BATCH_OVERHEAD)
    put32(out, 12, -1)
    out[16] = 2
    put32(out, 23, count - 1)
    put64(out, 27, timestamp)
    put64(out, 35, timestamp)
    # No producer.
    for number in range(43, 57):
        out[number] = 0xFF
    put32(out, 57, count)
    put32(out, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_AT:]))
    return batch
