# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index"
"""Reads the Fetch request that almost every consumer sends, in one pass.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(an older version, a follower, tagged fields, an epoch to compare with, forgotten topics, a topic twice in a row) is None, and the
request goes the ordinary way.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from tidelog.wire.kernels import _plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize

VERSION_MIN = 12
"""The first version with compact arrays."""
VERSION_MAX = 18

_FETCH_KEY = cython.declare(cython.longlong, 1)
_TOPIC_ID_VERSION = cython.declare(cython.longlong, 13)
_REPLICA_STATE_VERSION = cython.declare(cython.longlong, 15)

# Index, leader's epoch, offset, last epoch, log start, limit; and the tagged fields behind them, of which there are none.
_PARTITION_BYTES = cython.declare(cython.longlong, 33)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int16(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = (data[at] << 8) | data[at + 1]
    return value - 0x10000 if value >= 0x8000 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uint32(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = (data[at] << 8) | data[at + 1]
    low: cython.longlong = (data[at + 2] << 8) | data[at + 3]
    return (high << 16) | low


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int32(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _uint32(data, at)
    return value - 0x100000000 if value >= 0x80000000 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int64(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    # The high half is signed, so that no shift leaves the number's range.
    return _int32(data, at) * 0x100000000 + _uint32(data, at + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _length(
    data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """A length or a number of elements, and where it ends. -1 for null, and for what is no length."""
    byte: cython.longlong
    value: cython.longlong = 0
    shift: cython.int = 0
    while at < end and shift < 28:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, at
        shift += 7
    return -1, at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_letters(
    data: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    length: cython.longlong,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where a string of plain letters ends, so that nobody has to look whether it is UTF-8. -1 where it is none."""
    stop: cython.Py_ssize_t = at + length
    if stop > end:
        return -1
    while at < stop:
        if data[at] >= 0x80:
            return -1
        at += 1
    return at


def read_fetch(
    frame: object,
) -> tuple[int, int, int, int, int, int, int, int, list[tuple[bytes, int, int, int, int]]] | None:
    """Version, correlation id, longest wait, least and most bytes, isolation level, session id and epoch, and the partitions;
    None for a request that is not to be read here.

    A partition is the topic (its name, or from v13 on its id), its number, the leader's epoch, the offset, and the most bytes.
    """
    source: cython.const[cython.uchar][::1] = frame
    end: cython.Py_ssize_t = source.shape[0] if cython.compiled else len(source)
    at: cython.Py_ssize_t
    fields: cython.Py_ssize_t
    length: cython.longlong
    topic_count: cython.longlong
    partition_count: cython.longlong
    version: cython.longlong
    if end < 10:
        return None
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    version = _int16(data, 2)
    if _int16(data, 0) != _FETCH_KEY or version < VERSION_MIN or version > VERSION_MAX:
        return None

    # The request's header, without tagged fields.
    length = _int16(data, 8)
    at = 10
    if length < -1:
        return None
    if length > 0:
        at = _after_letters(data, at, length, end)
    if at < 0 or at >= end or data[at] != 0:
        return None
    at += 1

    if version < _REPLICA_STATE_VERSION:
        if end - at < 4 or _int32(data, at) != -1:
            return None
        at += 4
    if end - at < 21:
        return None
    fields = at
    at += 21

    topic_count, at = _length(data, at, end)
    if topic_count < 0 or topic_count > end // _PARTITION_BYTES:
        return None
    partitions: list[tuple[bytes, int, int, int, int]] = []
    previous: bytes = b""
    while topic_count > 0:
        topic_count -= 1
        length = 16
        if version < _TOPIC_ID_VERSION:
            length, at = _length(data, at, end)
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
        partition_count, at = _length(data, at, end)
        if partition_count <= 0 or partition_count > (end - at) // _PARTITION_BYTES:
            return None
        while partition_count > 0:
            partition_count -= 1
            # Nothing to compare with the leader's epochs, and no tagged fields.
            if _int32(data, at + 16) != -1 or data[at + 32] != 0:
                return None
            partitions.append(
                (topic, _int32(data, at), _int32(data, at + 4), _int64(data, at + 8), _int32(data, at + 28))
            )
            at += _PARTITION_BYTES
        if at >= end or data[at] != 0:
            return None
        at += 1

    # Nothing forgotten; a rack of any name; no tagged fields.
    if at >= end or data[at] != 1:
        return None
    length, at = _length(data, at + 1, end)
    if length < 0:
        return None
    at = _after_letters(data, at, length, end)
    if at < 0 or at >= end or data[at] != 0:
        return None
    return (
        version,
        _int32(data, 4),
        _int32(data, fields),
        _int32(data, fields + 4),
        _int32(data, fields + 8),
        data[fields + 12],
        _int32(data, fields + 13),
        _int32(data, fields + 17),
        partitions,
    )
