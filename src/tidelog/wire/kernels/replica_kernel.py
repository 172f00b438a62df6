# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index"
"""Reads what a follower gets from its leader all day: the answer to the next Fetch of a session.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(an error, a diverging epoch, any other tagged field) is None, and falls back to the decoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.tidelog.wire.kernels.frame_bytes import int16, int32, int64, length_at
else:
    from tidelog.wire.kernels._plain_frame_bytes import int16, int32, int64, length_at

# In an answer: index, error, high watermark, last stable offset, log start.
_ANSWERED_BYTES = cython.declare(cython.longlong, 30)


def read_replica_answer(frame: object) -> tuple[int, list[tuple[tuple[bytes, int], int, int, int, int]]] | None:
    """The session's id, and the partitions, of an answer in v15 to v18; None for one that is not
    to be read here.

    A partition is the topic's id with its number, the high watermark, where the leader's log starts, and where in the frame its
    records begin and end.
    """
    source: cython.const[cython.uchar][::1] = frame
    end: cython.Py_ssize_t = source.shape[0] if cython.compiled else len(source)
    at: cython.Py_ssize_t
    records: cython.Py_ssize_t
    length: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    if end < 16:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    # Correlation id and its tagged fields, the throttling, no error, the session.
    if data[4] != 0 or int16(data, 9) != 0:
        return None
    topic_count, at = length_at(data, 15, end, True, False)
    if topic_count < 0 or topic_count > end // _ANSWERED_BYTES:
        return None
    partitions: list[tuple[tuple[bytes, int], int, int, int, int]] = []
    while topic_count > 0:
        topic_count -= 1
        if end - at < 16:
            return None
        if cython.compiled:
            topic: bytes = PyBytes_FromStringAndSize(
                cython.cast(cython.pointer[cython.const[cython.char]], cython.address(data[at])), 16
            )
        else:
            topic = bytes(data[at : at + 16])
        at += 16
        partition_count, at = length_at(data, at, end, True, False)
        if partition_count < 0 or partition_count > (end - at) // _ANSWERED_BYTES:
            return None
        while partition_count > 0:
            partition_count -= 1
            # No error, no aborted transactions, no other replica to read from.
            if end - at < _ANSWERED_BYTES + 7 or int16(data, at + 4) != 0 or data[at + 30] > 1:
                return None
            if int32(data, at + 31) != -1:
                return None
            length, records = length_at(data, at + 35, end, True, False)
            if length < 0 or end - records <= length or data[records + length] != 0:
                return None
            partitions.append(
                ((topic, int32(data, at)), int64(data, at + 6), int64(data, at + 22), records, records + length)
            )
            at = records + length + 1
        if at >= end or data[at] != 0:
            return None
        at += 1
    if end - at != 1 or data[at] != 0:
        return None
    return int32(data, 11), partitions
