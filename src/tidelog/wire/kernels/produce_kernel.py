# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index"
"""Reads the Produce request that almost every client sends, in one pass.
Writes the answer to one of one batch.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(another version, tagged fields, no answer wanted, a topic twice in a row) is None, and the request falls back to the handler.
Nothing of the frame is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.cpython.unicode import PyUnicode_DecodeASCII
    from cython.cimports.tidelog.wire.kernels.frame_bytes import (
        bytes_of,
        int16,
        int32,
        length_at,
        put16,
        put32,
        put64,
        put_bytes,
        room_in,
    )
else:
    from tidelog.wire.kernels._plain_frame_bytes import (
        bytes_of,
        int16,
        int32,
        length_at,
        put16,
        put32,
        put64,
        put_bytes,
        room_in,
    )

VERSION_MIN = 7
"""The first version in which a batch may have any codec."""
VERSION_MAX = 13

_RECORD_ERRORS_VERSION = cython.declare(cython.longlong, 8)
_FLEXIBLE_VERSION = cython.declare(cython.longlong, 9)
_TOPIC_ID_VERSION = cython.declare(cython.longlong, 13)

_HEADER_BYTES = cython.declare(cython.longlong, 61)

# The smallest partition, and the smallest topic, that a request can name: what bounds their announced numbers.
_PARTITION_BYTES_MIN = cython.declare(cython.longlong, 66)


def read_produce(
    frame: memoryview,
) -> tuple[int, int, int, int, list[tuple[bytes, int, int, int]], str | None] | None:
    """Version, correlation id, acks, time-out, the batch of each partition, and the id of their transaction, if they are in one.

    None for a request that is not to be read here.

    A batch is the topic (its name, or from v13 on its id), the partition, and where in the frame it begins and ends. What it must
    be itself is for `storage.checked_batches` to say.
    """
    end: cython.Py_ssize_t = len(frame)
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    version: cython.longlong
    acks: cython.longlong
    timeout_ms: cython.longlong
    index: cython.longlong
    is_flexible: cython.bint
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = bytes_of(frame)
    version = int16(data, 2)
    if int16(data, 0) != 0 or version < VERSION_MIN or version > VERSION_MAX:
        return None
    is_flexible = version >= _FLEXIBLE_VERSION

    # The request's header: a client id of plain letters, so that nobody has to look whether it is UTF-8.
    length, at = length_at(data, 8, end, False, True)
    if length < -1:
        return None
    if length > 0:
        stop = at + length
        if stop > end:
            return None
        while at < stop:
            if data[at] >= 0x80:
                return None
            at += 1
    if is_flexible:
        if at >= end or data[at] != 0:
            return None
        at += 1

    # The transaction, by a name of plain letters, or none.
    transactional_id = None
    if is_flexible:
        if at >= end:
            return None
        if data[at] == 0:
            length = -1
            at += 1
        else:
            length, at = length_at(data, at, end, True, True)
            if length < 0:
                return None
    else:
        if end - at < 2:
            return None
        length = int16(data, at)
        at += 2
        if length < -1:
            return None
    if length >= 0:
        stop = at + length
        if length == 0 or stop > end:
            return None
        while at < stop:
            if data[at] >= 0x80:
                return None
            at += 1
        at -= length
        if cython.compiled:
            transactional_id = PyUnicode_DecodeASCII(
                cython.cast(cython.pointer[cython.const[cython.char]], cython.address(data[at])), length, cython.NULL
            )
        else:
            transactional_id = bytes(data[at:stop]).decode("ascii")
        at = stop

    # Acks that are answered.
    if end - at < 6:
        return None
    acks = int16(data, at)
    if acks not in (1, -1):
        return None
    timeout_ms = int32(data, at + 2)
    at += 6

    topic_count, at = length_at(data, at, end, is_flexible, False)
    if topic_count <= 0 or topic_count > end // _PARTITION_BYTES_MIN:
        return None
    batches: list[tuple[bytes, int, int, int]] = []
    previous: bytes = b""
    while topic_count > 0:
        topic_count -= 1
        length = 16
        if version < _TOPIC_ID_VERSION:
            length, at = length_at(data, at, end, is_flexible, True)
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
        partition_count, at = length_at(data, at, end, is_flexible, False)
        if partition_count <= 0 or partition_count > end // _PARTITION_BYTES_MIN:
            return None
        while partition_count > 0:
            partition_count -= 1
            if end - at < 4:
                return None
            index = int32(data, at)
            length, at = length_at(data, at + 4, end, is_flexible, False)
            if length < _HEADER_BYTES or end - at < length:
                return None
            stop = at + length
            batches.append((topic, index, at, stop))
            at = stop
            if is_flexible:
                if at >= end or data[at] != 0:
                    return None
                at += 1
        if is_flexible:
            if at >= end or data[at] != 0:
                return None
            at += 1
    if is_flexible and (at >= end or data[at] != 0):
        return None
    return version, int32(data, 4), acks, timeout_ms, batches, transactional_id


def write_produced(
    version: cython.longlong,
    correlation_id: cython.longlong,
    head: bytes,
    index: cython.longlong,
    first_offset: cython.longlong,
    log_start_offset: cython.longlong,
) -> bytes:
    """The whole answer, its size in front, to a request of one batch, which was appended. `head` is what lies between the
    correlation id and the partition."""
    is_flexible: cython.bint = version >= _FLEXIBLE_VERSION
    after_partition: cython.longlong = 6 if version >= _RECORD_ERRORS_VERSION else 0
    size: cython.Py_ssize_t = 4 + len(head) + 30 + (9 if is_flexible else after_partition + 4)
    answer: bytearray = bytearray(4 + size)
    out: cython.pointer[cython.uchar] = room_in(answer)
    at: cython.Py_ssize_t
    put32(out, 0, size)
    put32(out, 4, correlation_id)
    at = put_bytes(out, 8, head)
    put32(out, at, index)
    # No error; and no time of the append.
    put64(out, at + 6, first_offset)
    put64(out, at + 14, -1)
    put64(out, at + 22, log_start_offset)
    # No refused records, no message, and no throttling. All that is left are zeros.
    if is_flexible:
        out[at + 30] = 1
    elif after_partition:
        put16(out, at + 34, -1)
    return bytes(answer)
