# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index"
"""Reads the Fetch request that almost every consumer sends, in one pass. Writes the answer to one for one partition.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(an older version, a follower, tagged fields, an epoch to compare with, forgotten topics, a topic twice in a row) is None, and the
request goes the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.tidelog.wire.kernels.frame_bytes import (
        after_letters,
        bytes_of,
        int16,
        int32,
        int64,
        length_at,
        put32,
        put64,
        put_bytes,
        put_varint,
        room_in,
        varint_bytes,
    )
else:
    from tidelog.wire.kernels._plain_frame_bytes import (
        after_letters,
        bytes_of,
        int16,
        int32,
        int64,
        length_at,
        put32,
        put64,
        put_bytes,
        put_varint,
        room_in,
        varint_bytes,
    )

VERSION_MIN = 12
"""The first version with compact arrays."""
VERSION_MAX = 18

_FETCH_KEY = cython.declare(cython.longlong, 1)
_TOPIC_ID_VERSION = cython.declare(cython.longlong, 13)
_REPLICA_STATE_VERSION = cython.declare(cython.longlong, 15)

# Index, leader's epoch, offset, last epoch, log start, limit; and the tagged fields behind them, of which there are none.
_PARTITION_BYTES = cython.declare(cython.longlong, 33)


def read_fetch(
    frame: memoryview,
) -> tuple[int, int, int, int, int, int, int, int, list[tuple[bytes, int, int, int, int]]] | None:
    """Version, correlation id, longest wait, least and most bytes, isolation level, session id and epoch, and the partitions;
    None for a request that is not to be read here.

    A partition is the topic (its name, or from v13 on its id), its number, the leader's epoch, the offset, and the most bytes.
    """
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    fields: cython.Py_ssize_t
    length: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    version: cython.longlong
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != _FETCH_KEY or version < VERSION_MIN or version > VERSION_MAX:
        return None

    # The request's header, without tagged fields.
    length = int16(data, 8)
    at = 10
    if length < -1:
        return None
    if length > 0:
        at = after_letters(data, at, length, end)
    if at < 0 or at >= end or data[at] != 0:
        return None
    at += 1

    if version < _REPLICA_STATE_VERSION:
        if end - at < 4 or int32(data, at) != -1:
            return None
        at += 4
    if end - at < 21:
        return None
    fields = at
    at += 21

    topic_count, at = length_at(data, at, end, True, False)
    if topic_count < 0 or topic_count > end // _PARTITION_BYTES:
        return None
    partitions: list[tuple[bytes, int, int, int, int]] = []
    previous: bytes = b""
    while topic_count > 0:
        topic_count -= 1
        length = 16
        if version < _TOPIC_ID_VERSION:
            length, at = length_at(data, at, end, True, False)
        if length <= 0 or end - at < length:
            return None
        if cython.compiled:
            topic: bytes = PyBytes_FromStringAndSize(
                cython.cast(cython.pointer[cython.const[cython.char]], cython.address(data[at])), length
            )
        else:
            topic = bytes(data[at : at + length])
        at += length
        # An answer names the topics as the request does, and from here on they are told apart by their names alone.
        if topic == previous:
            return None
        previous = topic
        partition_count, at = length_at(data, at, end, True, False)
        if partition_count <= 0 or partition_count > (end - at) // _PARTITION_BYTES:
            return None
        while partition_count > 0:
            partition_count -= 1
            # Nothing to compare with the leader's epochs, and no tagged fields.
            if int32(data, at + 16) != -1 or data[at + 32] != 0:
                return None
            partitions.append((topic, int32(data, at), int32(data, at + 4), int64(data, at + 8), int32(data, at + 28)))
            at += _PARTITION_BYTES
        if at >= end or data[at] != 0:
            return None
        at += 1

    # Nothing forgotten; a rack of any name; no tagged fields.
    if at >= end or data[at] != 1:
        return None
    length, at = length_at(data, at + 1, end, True, False)
    if length < 0:
        return None
    at = after_letters(data, at, length, end)
    if at < 0 or at >= end or data[at] != 0:
        return None
    return (
        version,
        int32(data, 4),
        int32(data, fields),
        int32(data, fields + 4),
        int32(data, fields + 8),
        data[fields + 12],
        int32(data, fields + 13),
        int32(data, fields + 17),
        partitions,
    )


def write_fetched(
    correlation_id: cython.longlong,
    head: bytes,
    index: cython.longlong,
    high_watermark: cython.longlong,
    last_stable_offset: cython.longlong,
    log_start_offset: cython.longlong,
    is_committed: cython.bint,
    count: cython.longlong,
    records: bytes | None,
) -> bytearray:
    """The answer to a fetch of one partition outside of a session, with `count` bytes of records. Where `records` is None it ends
    before them, and they are to be followed by three zeros.

    `head` is what precedes the partition. `is_committed`: the reader wants to know of aborted transactions, and there are none.
    """
    size: cython.Py_ssize_t = 15 + len(head) + 35 + varint_bytes(count + 1, 0)
    end: cython.Py_ssize_t = size if records is None else size + len(records) + 3
    answer: bytearray = bytearray(end)
    out: cython.pointer[cython.uchar] = room_in(answer)
    at: cython.Py_ssize_t
    # Then no tagged fields, no throttling, no error and no session.
    put32(out, 0, correlation_id)
    at = put_bytes(out, 15, head)
    put32(out, at, index)
    put64(out, at + 6, high_watermark)
    put64(out, at + 14, last_stable_offset)
    put64(out, at + 22, log_start_offset)
    out[at + 30] = 1 if is_committed else 0
    # No other replica to read from.
    put32(out, at + 31, -1)
    at = put_varint(out, at + 35, count + 1, 0)
    if records is not None:
        put_bytes(out, at, records)
    return answer
