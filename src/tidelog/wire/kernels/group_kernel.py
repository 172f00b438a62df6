# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""Reads the requests that members of groups send all day, each in one pass: Heartbeat, ConsumerGroupHeartbeat, OffsetCommit.

This is one source for two twins, as `decode_kernel` is. It takes the common case only and decides nothing: whatever is unusual
(another version, tagged fields, names that are not plain ASCII, a member that has news) is None, and the request goes the
ordinary way, which knows what to say to it. Nothing of the frame is changed.

A commit's records are made here as well, in one pass: what `records.build_batch` makes of OffsetCommitKey and
OffsetCommitValue version 4, byte for byte.
"""

from __future__ import annotations

from crc32c import crc32c

try:
    import cython
except ImportError:
    from tidelog.wire.kernels import _plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.cpython.unicode import PyUnicode_DecodeASCII

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

# What is no length at all, as -1 is that of null.
_BAD = cython.declare(cython.longlong, -2)
# The smallest partition of a commit that a request can name: what bounds its announced number.
_PARTITION_BYTES_MIN = cython.declare(cython.longlong, 17)

_BATCH_OVERHEAD = cython.declare(cython.longlong, 12)
_HEADER_BYTES = cython.declare(cython.longlong, 61)
_CRC_AT = cython.declare(cython.longlong, 17)
_CHECKED_AT = cython.declare(cython.longlong, 21)

# Without metadata, names and topic id: type, two lengths, partition; version, offset, epoch, commit time, tagged fields.
_KEY_BYTES = cython.declare(cython.longlong, 10)
_VALUE_BYTES = cython.declare(cython.longlong, 23)
_TOPIC_ID_BYTES = cython.declare(cython.longlong, 18)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bytes_of(frame: memoryview) -> cython.pointer[cython.const[cython.uchar]]:
    """Where a frame's bytes are; compiled only. A frame is a plain view of bytes, and is not asked whether it is one: the
    asking would take as long as the reading."""
    return cython.cast(cython.pointer[cython.const[cython.uchar]], PyMemoryView_GET_BUFFER(frame).buf)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _room_in(buffer: bytearray) -> cython.pointer[cython.uchar]:
    """Where a buffer's bytes are to be put; compiled only."""
    return cython.cast(cython.pointer[cython.uchar], PyByteArray_AS_STRING(buffer))


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
    data: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    is_flexible: cython.bint,
    is_short: cython.bint,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """A length or a number of elements, and where it ends. -1 for null, _BAD for what is none, or is longer than need be."""
    byte: cython.longlong
    value: cython.longlong = 0
    shift: cython.int = 0
    if is_flexible:
        while at < end and shift < 28:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (_BAD if byte == 0 and shift > 0 else value - 1), at
            shift += 7
        return _BAD, at
    if is_short:
        if end - at >= 2:
            value = _int16(data, at)
            return (value if value >= -1 else _BAD), at + 2
    elif end - at >= 4:
        value = _int32(data, at)
        return (value if value >= 0 else _BAD), at + 4
    return _BAD, at


@cython.cfunc
def _text(
    data: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    length: cython.longlong,
) -> object:
    """The ASCII text of this length; None where it is something else, or goes beyond the end."""
    place: cython.Py_ssize_t
    if length < 0 or end - at < length:
        return None
    for place in range(at, at + length):
        if data[place] >= 0x80:
            return None
    if cython.compiled:
        return PyUnicode_DecodeASCII(
            cython.cast(cython.pointer[cython.const[cython.char]], cython.address(data[at])), length, cython.NULL
        )
    return bytes(data[at : at + length]).decode("ascii")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _header_end(
    data: cython.pointer[cython.const[cython.uchar]], end: cython.Py_ssize_t, is_flexible: cython.bint
) -> cython.Py_ssize_t:
    """Where the request's body begins; -1 where its header is an unusual one. A client id is plain ASCII, or null."""
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.longlong
    length, at = _length(data, 8, end, False, True)
    if length < -1:
        return -1
    if length > 0:
        stop = at + length
        if stop > end:
            return -1
        while at < stop:
            if data[at] >= 0x80:
                return -1
            at += 1
    if is_flexible:
        if at >= end or data[at] != 0:
            return -1
        at += 1
    return at


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
    data: cython.pointer[cython.const[cython.uchar]] = _bytes_of(frame) if cython.compiled else frame
    version = _int16(data, 2)
    if _int16(data, 0) != HEARTBEAT_KEY or version < 0 or version > HEARTBEAT_VERSION_MAX:
        return None
    is_flexible = version >= _HEARTBEAT_FLEXIBLE
    at = _header_end(data, end, is_flexible)
    if at < 0:
        return None
    length, at = _length(data, at, end, is_flexible, True)
    group = _text(data, at, end, length)
    if group is None:
        return None
    at += length
    if end - at < 4:
        return None
    generation = _int32(data, at)
    length, at = _length(data, at + 4, end, is_flexible, True)
    member = _text(data, at, end, length)
    if member is None:
        return None
    at += length
    instance = None
    if version >= _HEARTBEAT_INSTANCE:
        length, at = _length(data, at, end, is_flexible, True)
        if length != -1:
            instance = _text(data, at, end, length)
            if instance is None:
                return None
            at += length
    if is_flexible:
        if at >= end or data[at] != 0:
            return None
        at += 1
    if at != end:
        return None
    return version, _int32(data, 4), group, generation, member, instance


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
    data: cython.pointer[cython.const[cython.uchar]] = _bytes_of(frame) if cython.compiled else frame
    version = _int16(data, 2)
    if _int16(data, 0) != CONSUMER_HEARTBEAT_KEY or version < 0 or version > CONSUMER_HEARTBEAT_VERSION_MAX:
        return None
    at = _header_end(data, end, True)
    if at < 0:
        return None
    length = _int16(data, 8)
    client = "" if length <= 0 else _text(data, 10, end, length)
    length, at = _length(data, at, end, True, True)
    group = _text(data, at, end, length)
    if group is None:
        return None
    length, at = _length(data, at + length, end, True, True)
    member = _text(data, at, end, length)
    if member is None:
        return None
    at += length
    if end - at < 4:
        return None
    epoch = _int32(data, at)
    at += 4
    instance = rack = None
    length, at = _length(data, at, end, True, True)
    if length != -1:
        instance = _text(data, at, end, length)
        if instance is None:
            return None
        at += length
    length, at = _length(data, at, end, True, True)
    if length != -1:
        rack = _text(data, at, end, length)
        if rack is None:
            return None
        at += length
    # No time-out, and no names, expression, assignor or partitions; then no tagged fields.
    tail = 5 if version >= 1 else 4
    if end - at != 4 + tail or _int32(data, at) != -1:
        return None
    at += 4
    while at < end:
        if data[at] != 0:
            return None
        at += 1
    return version, _int32(data, 4), client, group, member, epoch, instance, rack


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
    data: cython.pointer[cython.const[cython.uchar]] = _bytes_of(frame) if cython.compiled else frame
    version = _int16(data, 2)
    if _int16(data, 0) != OFFSET_COMMIT_KEY or version < COMMIT_VERSION_MIN or version > COMMIT_VERSION_MAX:
        return None
    is_flexible = version >= _COMMIT_FLEXIBLE
    at = _header_end(data, end, is_flexible)
    if at < 0:
        return None
    length, at = _length(data, at, end, is_flexible, True)
    group = _text(data, at, end, length)
    if group is None:
        return None
    at += length
    if end - at < 4:
        return None
    generation = _int32(data, at)
    length, at = _length(data, at + 4, end, is_flexible, True)
    member = _text(data, at, end, length)
    if member is None:
        return None
    at += length
    instance = None
    if version >= _COMMIT_INSTANCE:
        length, at = _length(data, at, end, is_flexible, True)
        if length != -1:
            instance = _text(data, at, end, length)
            if instance is None:
                return None
            at += length

    # The answer repeats topics and partitions as they stand here, and takes no more room than they do: size, correlation id,
    # its tagged fields, throttling.
    answer = bytearray(end + 16)
    out: cython.pointer[cython.uchar] = _room_in(answer) if cython.compiled else answer
    filled = 13 if is_flexible else 12
    start = at
    topic_count, at = _length(data, at, end, is_flexible, False)
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
            length, at = _length(data, at, end, is_flexible, True)
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
        partition_count, at = _length(data, at + length, end, is_flexible, False)
        if partition_count <= 0 or partition_count > end // _PARTITION_BYTES_MIN:
            return None
        for place in range(start, at):
            out[filled] = data[place]
            filled += 1
        while partition_count > 0:
            partition_count -= 1
            if end - at < 17:
                return None
            index = _int32(data, at)
            offset = _int64(data, at + 4)
            epoch = _int32(data, at + 12)
            for place in range(at, at + 4):
                out[filled] = data[place]
                filled += 1
            # No error.
            filled += 2
            length, at = _length(data, at + 16, end, is_flexible, True)
            metadata = "" if length == -1 else _text(data, at, end, length)
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
    _put32(out, 0, filled - 4)
    for place in range(4):
        out[4 + place] = data[4 + place]
    if cython.compiled:
        answered: bytes = PyBytes_FromStringAndSize(cython.cast(cython.pointer[cython.const[cython.char]], out), filled)
    else:
        answered = bytes(answer[:filled])
    return version, _int32(data, 4), group, generation, member, instance, commits, answered


# --- records ---------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put16(out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    out[at] = (value >> 8) & 0xFF
    out[at + 1] = value & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put32(out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    _put16(out, at, value >> 16)
    _put16(out, at + 2, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put64(out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    _put32(out, at, value >> 32)
    _put32(out, at + 4, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_varint(
    out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.longlong, shift: cython.int
) -> cython.Py_ssize_t:
    """A number that is not negative, times two for a zigzag one (shift 1) or as it is (0). Where it ends."""
    value <<= shift
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_bytes(value: cython.longlong, shift: cython.int) -> cython.longlong:
    count: cython.longlong = 1
    value <<= shift
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


@cython.cfunc
@cython.inline
def _put_bytes(out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
    """Where the copied bytes end."""
    place: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(text)
    data: cython.pointer[cython.const[cython.uchar]] = (
        cython.cast(cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(text)) if cython.compiled else text
    )
    for place in range(count):
        out[at + place] = data[place]
    return at + count


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _value_bytes(metadata_bytes: cython.longlong) -> cython.longlong:
    return _VALUE_BYTES + _varint_bytes(metadata_bytes + 1, 0) + metadata_bytes + _TOPIC_ID_BYTES


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _body_bytes(number: cython.longlong, key_bytes: cython.longlong, value_bytes: cython.longlong) -> cython.longlong:
    """What a record takes behind its length: attributes, time, its place; key and value with their lengths; no headers."""
    lengths: cython.longlong = _varint_bytes(number, 1) + _varint_bytes(key_bytes, 1) + _varint_bytes(value_bytes, 1)
    return 3 + lengths + key_bytes + value_bytes


def offset_commit_batch(
    group_id: str,
    topics: list[tuple[bytes, bytes, object, object]],
    commits: list[tuple[bytes, int, int, int, str]],
    commit_time_ms: int,
    timestamp_ms: int,
) -> bytearray:
    """The batch of a commit that `read_offset_commit` has read. Of each partition's topic: its name, its id, not zero, and
    two things that are not looked at."""
    at: cython.Py_ssize_t = _HEADER_BYTES
    size: cython.longlong = _HEADER_BYTES
    key_bytes: cython.longlong
    value_bytes: cython.longlong
    body_bytes: cython.longlong
    number: cython.longlong
    count: cython.longlong = len(commits)
    commit_time: cython.longlong = commit_time_ms
    timestamp: cython.longlong = timestamp_ms
    index: cython.longlong
    offset: cython.longlong
    epoch: cython.longlong
    group: bytes = group_id.encode()
    name: bytes
    topic_id: bytes
    text: bytes
    for number in range(count):
        key_bytes = _KEY_BYTES + len(group) + len(topics[number][0])
        body_bytes = _body_bytes(number, key_bytes, _value_bytes(len(commits[number][4])))
        size += _varint_bytes(body_bytes, 1) + body_bytes
    batch = bytearray(size)
    out: cython.pointer[cython.uchar] = _room_in(batch) if cython.compiled else batch
    for number in range(count):
        name, topic_id, _, _ = topics[number]
        _, index, offset, epoch, metadata = commits[number]
        text = metadata.encode()
        key_bytes = _KEY_BYTES + len(group) + len(name)
        value_bytes = _value_bytes(len(text))
        at = _put_varint(out, at, _body_bytes(number, key_bytes, value_bytes), 1)
        # No attributes, and the batch's own time.
        at = _put_varint(out, at + 2, number, 1)
        at = _put_varint(out, at, key_bytes, 1)
        _put16(out, at, 1)
        _put16(out, at + 2, len(group))
        at = _put_bytes(out, at + 4, group)
        _put16(out, at, len(name))
        at = _put_bytes(out, at + 2, name)
        _put32(out, at, index)
        at = _put_varint(out, at + 4, value_bytes, 1)
        _put16(out, at, 4)
        _put64(out, at + 2, offset)
        _put32(out, at + 10, epoch)
        at = _put_varint(out, at + 14, len(text) + 1, 0)
        at = _put_bytes(out, at, text)
        _put64(out, at, commit_time)
        # One tagged field, the first, of 16 bytes.
        out[at + 8] = 1
        out[at + 10] = 16
        at = _put_bytes(out, at + 11, topic_id) + 1
    _put32(out, 8, size - _BATCH_OVERHEAD)
    _put32(out, 12, -1)
    out[16] = 2
    _put32(out, 23, count - 1)
    _put64(out, 27, timestamp)
    _put64(out, 35, timestamp)
    # No producer.
    for number in range(43, 57):
        out[number] = 0xFF
    _put32(out, 57, count)
    _put32(out, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_AT:]))
    return batch
