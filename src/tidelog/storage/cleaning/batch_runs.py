# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""The loops of compaction over the batches of a log: the last offset of each key is noted, and what stays is copied.

The compiled twin works without the interpreter's lock, so that an event loop on another thread goes on meanwhile. It checks no
index by itself: every read of a batch's bytes is checked here, against the end of what holds it.

`*_run` walk along the batches of a window of a log file as long as these are plain (no codec, no transaction, nothing that has to
stay for its producer's sake); `*_records` do one batch whose records are unpacked. `Indexing` and `Filtering` call them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.storage.cleaning.offset_map import OffsetMap
    from cython.cimports.tidelog.wire.record_fields_inline import (
        put_piece,
        put_varint,
        read_long_varint,
        read_varint,
        varint_bytes,
    )
    from cython.cimports.tidelog.wire.typed.fields_inline import int32, int64, put32, put64
else:
    from tidelog.storage.cleaning.offset_map import OffsetMap
    from tidelog.wire.record_fields import put_piece, put_varint, read_long_varint, read_varint, varint_bytes
    from tidelog.wire.typed.fields import int32, int64, put32, put64

# How a run ends.
AT_END = 0
"""All whole batches of the window are done."""
AT_SPECIAL = 1
"""The batch at the position is not plain."""
AT_FULL = 2
"""The map, the output or the list of batches is full. The batch at the position is not done."""
AT_DAMAGE = 3
"""The bytes at the position are no batch."""

_AT_END = cython.declare(cython.longlong, 0)
_AT_SPECIAL = cython.declare(cython.longlong, 1)
_AT_FULL = cython.declare(cython.longlong, 2)
_AT_DAMAGE = cython.declare(cython.longlong, 3)

# Of a batch that `filter_run` has written: where it begins in the window and in the output, its size there, its last offset, its
# newest timestamp, and whether it is another one than before.
WRITTEN_FIELDS = 6

# What a record may grow by when its time is counted from another base: a delta of ten bytes instead of one, and a longer length.
RECORD_GROWTH_MAX = 14

_WRITTEN_FIELDS = cython.declare(cython.Py_ssize_t, 6)
_RECORD_GROWTH_MAX = cython.declare(cython.longlong, 14)

_HEADER_BYTES = cython.declare(cython.longlong, 61)
_BATCH_OVERHEAD = cython.declare(cython.longlong, 12)
_MAGIC = cython.declare(cython.longlong, 2)
_CODEC_TRANSACTION_CONTROL = cython.declare(cython.longlong, 0x37)
_LOG_APPEND_TIME = cython.declare(cython.longlong, 0x08)
_DELETE_HORIZON = cython.declare(cython.longlong, 0x40)
_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT64_MIN = cython.declare(cython.longlong, -_INT64_MAX - 1)


# --- reading -----------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_record(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    previous_delta: cython.longlong,
    last_delta: cython.longlong,
) -> tuple[
    cython.Py_ssize_t,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.Py_ssize_t,
    cython.longlong,
    cython.bint,
]:
    """Where the record ends, or -1; where it begins behind its length; its timestamp delta and where that ends; its offset delta;
    start and length of its key; whether it has a value. What lies behind is carried along unseen."""
    body: cython.Py_ssize_t
    length: cython.longlong
    timestamp_delta: cython.longlong
    timestamp_end: cython.Py_ssize_t
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    value_length: cython.longlong
    value_start: cython.Py_ssize_t

    length, body = read_varint(data, position, end)
    # Behind its length a record takes six bytes at least.
    if body < 0 or length < 6 or length > end - body:
        return -1, 0, 0, 0, 0, 0, 0, False
    end = body + length
    timestamp_delta, timestamp_end = read_long_varint(data, body + 1, end, 64)
    if timestamp_end < 0:
        return -1, 0, 0, 0, 0, 0, 0, False
    offset_delta, position = read_varint(data, timestamp_end, end)
    if position < 0 or offset_delta <= previous_delta or offset_delta > last_delta:
        return -1, 0, 0, 0, 0, 0, 0, False
    key_length, key_start = read_varint(data, position, end)
    if key_start < 0 or key_length < -1 or key_length > end - key_start:
        return -1, 0, 0, 0, 0, 0, 0, False
    position = key_start + key_length if key_length > 0 else key_start
    value_length, value_start = read_varint(data, position, end)
    if value_start < 0 or value_length < -1 or value_length > end - value_start:
        return -1, 0, 0, 0, 0, 0, 0, False
    return end, body, timestamp_delta, timestamp_end, offset_delta, key_start, key_length, value_length >= 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _batch_bytes(
    data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """The size of the batch at `at`: 0 where it is cut off, -1 where there is none."""
    length: cython.longlong
    if end - at < _HEADER_BYTES:
        return 0
    length = int32(data, at + 8)
    if (
        data[at + 16] != _MAGIC
        or length < _HEADER_BYTES - _BATCH_OVERHEAD
        or int32(data, at + 23) < 0
        or int32(data, at + 57) < 0
        or int64(data, at) < 0
        or int64(data, at) > _INT64_MAX - int32(data, at + 23)
    ):
        return -1
    return length + _BATCH_OVERHEAD if length + _BATCH_OVERHEAD <= end - at else 0


# --- the last offset of each key ----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _index_records(
    offset_map: OffsetMap,
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    last_delta: cython.longlong,
    first_offset: cython.longlong,
) -> cython.longlong:
    """How it ended."""
    _index: cython.longlong
    previous_delta: cython.longlong = -1
    record_end: cython.Py_ssize_t
    _body: cython.Py_ssize_t
    _timestamp_delta: cython.longlong
    _timestamp_end: cython.Py_ssize_t
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    _has_value: cython.bint
    for _index in range(count):
        (
            record_end,
            _body,
            _timestamp_delta,
            _timestamp_end,
            offset_delta,
            key_start,
            key_length,
            _has_value,
        ) = _read_record(data, position, end, previous_delta, last_delta)
        if record_end < 0:
            return _AT_DAMAGE
        previous_delta = offset_delta
        position = record_end
        if key_length >= 0 and base_offset + offset_delta >= first_offset:
            if offset_map.entries >= offset_map.entries_max:
                return _AT_FULL
            offset_map.latest_offset = base_offset + offset_delta
            offset_map.put(data, key_start, key_length, base_offset + offset_delta)
    if position != end:
        return _AT_DAMAGE
    return _AT_END


def index_records(
    offset_map: OffsetMap,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    last_delta: cython.longlong,
    first_offset: cython.longlong,
) -> int:
    """Take the records of one batch into the map, from `first_offset` on: how it ended."""
    status: cython.longlong
    if count == 0:
        return AT_END
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    with cython.nogil:
        status = _index_records(offset_map, data, start, end, count, base_offset, last_delta, first_offset)
    return status


def index_run(
    offset_map: OffsetMap,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    first_offset: cython.longlong,
    starts: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Take plain batches into the map: how it ended, where, and how many batches were done.

    Where each of those begins is noted in `starts`; the next one begins where it ends.
    """
    status: cython.longlong = _AT_END
    at: cython.Py_ssize_t = start
    size: cython.longlong
    last_delta: cython.longlong
    done: cython.Py_ssize_t = 0
    done_max: cython.Py_ssize_t = starts.shape[0] if cython.compiled else len(starts)
    if start >= end:
        return AT_END, start, 0
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    with cython.nogil:
        while at < end:
            size = _batch_bytes(data, at, end)
            if size <= 0:
                status = _AT_END if size == 0 else _AT_DAMAGE
                break
            if data[at + 22] & _CODEC_TRANSACTION_CONTROL:
                status = _AT_SPECIAL
                break
            if done == done_max:
                status = _AT_END
                break
            last_delta = int32(data, at + 23)
            status = _index_records(
                offset_map,
                data,
                at + _HEADER_BYTES,
                at + size,
                int32(data, at + 57),
                int64(data, at),
                last_delta,
                first_offset,
            )
            if status != _AT_END:
                break
            if int64(data, at) + last_delta >= first_offset:
                offset_map.latest_offset = int64(data, at) + last_delta
            starts[done] = at
            done += 1
            at += size
    return status, at, done


# --- which records stay -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _filter_records(
    offset_map: OffsetMap,
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_delta: cython.longlong,
    is_expired: cython.bint,
    keeps_all: cython.bint,
    is_rebased: cython.bint,
    new_base: cython.longlong,
    out: cython.pointer[cython.uchar],
    out_position: cython.Py_ssize_t,
) -> tuple[cython.longlong, cython.longlong, cython.bint, cython.longlong, cython.Py_ssize_t]:
    """How many records stay, or -1 for damage and -2 for a time that cannot be counted from `new_base`; how many have no key;
    whether one of those that stay is a tombstone; the newest timestamp among them; and where they end in `out`."""
    _index: cython.longlong
    kept: cython.longlong = 0
    keyless: cython.longlong = 0
    has_tombstone: cython.bint = False
    is_kept: cython.bint
    newest: cython.longlong = -1
    previous_delta: cython.longlong = -1
    timestamp: cython.longlong
    offset: cython.longlong
    # What is to be copied as it is, in pieces as long as they can be.
    piece_start: cython.Py_ssize_t = position
    piece_end: cython.Py_ssize_t = position
    record_end: cython.Py_ssize_t
    body: cython.Py_ssize_t
    timestamp_delta: cython.longlong
    timestamp_end: cython.Py_ssize_t
    offset_delta: cython.longlong
    key_start: cython.Py_ssize_t
    key_length: cython.longlong
    has_value: cython.bint
    for _index in range(count):
        (
            record_end,
            body,
            timestamp_delta,
            timestamp_end,
            offset_delta,
            key_start,
            key_length,
            has_value,
        ) = _read_record(data, position, end, previous_delta, last_delta)
        if record_end < 0 or (
            (timestamp_delta > 0 and base_timestamp > _INT64_MAX - timestamp_delta)
            or (timestamp_delta < 0 and base_timestamp < _INT64_MIN - timestamp_delta)
        ):
            return -1, 0, False, 0, 0
        previous_delta = offset_delta
        offset = base_offset + offset_delta
        if keeps_all or offset > offset_map.latest_offset:
            is_kept = True
        elif key_length < 0:
            keyless += 1
            is_kept = False
        else:
            is_kept = (has_value or not is_expired) and offset >= offset_map.last_offset(data, key_start, key_length)
        if is_kept:
            timestamp = base_timestamp + timestamp_delta
            kept += 1
            if not has_value:
                has_tombstone = True
            if kept == 1 or timestamp > newest:
                newest = timestamp
            if is_rebased:
                if (new_base > 0 and timestamp < _INT64_MIN + new_base) or (
                    new_base < 0 and timestamp > _INT64_MAX + new_base
                ):
                    return -2, 0, False, 0, 0
                out_position = put_varint(
                    out, out_position, record_end - timestamp_end + 1 + varint_bytes(timestamp - new_base)
                )
                out[out_position] = data[body]
                out_position = put_varint(out, out_position + 1, timestamp - new_base)
                out_position = put_piece(out, out_position, data, timestamp_end, record_end)
            elif piece_end == position:
                piece_end = record_end
            else:
                out_position = put_piece(out, out_position, data, piece_start, piece_end)
                piece_start, piece_end = position, record_end
        position = record_end
    if position != end:
        return -1, 0, False, 0, 0
    if not is_rebased:
        out_position = put_piece(out, out_position, data, piece_start, piece_end)
    return kept, keyless, has_tombstone, newest, out_position


def filter_records(
    offset_map: OffsetMap,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    last_delta: cython.longlong,
    is_expired: cython.bint,
    keeps_all: cython.bint,
    new_base: object,
    target: cython.uchar[::1],
    target_start: cython.Py_ssize_t,
) -> tuple[int, int, bool, int, int]:
    """Copy those records of one batch to `target` that stay, their times counted from `new_base` unless that is None.

    How many those are, or -1 for damage and -2 where a time cannot be counted from there; how many records have no key; whether
    a tombstone is among those that stay; their newest timestamp; and where they end. `target` has room for all records, grown.
    """
    kept: cython.longlong
    keyless: cython.longlong
    has_tombstone: cython.bint
    newest: cython.longlong
    target_end: cython.Py_ssize_t
    is_rebased: cython.bint = new_base is not None
    base: cython.longlong = new_base if is_rebased else 0
    room: cython.Py_ssize_t = (target.shape[0] if cython.compiled else len(target)) - target_start
    if count == 0:
        return 0, 0, False, -1, target_start
    if room < end - start + (count * _RECORD_GROWTH_MAX if is_rebased else 0):
        raise ValueError(f"there are {room} bytes of room for what may become of {end - start} bytes of records")
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    out: cython.pointer[cython.uchar] = cython.address(target[0]) if cython.compiled else target
    with cython.nogil:
        kept, keyless, has_tombstone, newest, target_end = _filter_records(
            offset_map,
            data,
            start,
            end,
            count,
            base_offset,
            base_timestamp,
            last_delta,
            is_expired,
            keeps_all,
            is_rebased,
            base,
            out,
            target_start,
        )
    return kept, keyless, has_tombstone, newest, target_end


def filter_run(
    offset_map: OffsetMap,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    now_ms: cython.longlong,
    horizon_ms: cython.longlong,
    special: cython.const[cython.longlong][::1],
    target: cython.uchar[::1],
    written: cython.longlong[::1],
) -> tuple[int, int, int, int, int, int, int]:
    """Copy what stays of plain batches to `target`, from its beginning.

    How it ended and where; where in `target`; how many batches were written, each with its fields in `written`; how many records
    were read, how many of them stay, and how many have no key. A batch whose last offset is in `special`, which rises, is not
    plain. What is written and not as before lacks its checksum.
    """
    status: cython.longlong = _AT_END
    at: cython.Py_ssize_t = start
    out_at: cython.Py_ssize_t = 0
    out_end: cython.Py_ssize_t
    size: cython.longlong
    attributes: cython.longlong
    count: cython.longlong
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    last_delta: cython.longlong
    kept: cython.longlong
    keyless: cython.longlong
    newest: cython.longlong
    has_tombstone: cython.bint
    is_expired: cython.bint
    is_rebased: cython.bint
    read_total: cython.longlong = 0
    kept_total: cython.longlong = 0
    keyless_total: cython.longlong = 0
    special_index: cython.Py_ssize_t = 0
    special_count: cython.Py_ssize_t = special.shape[0] if cython.compiled else len(special)
    done: cython.Py_ssize_t = 0
    done_max: cython.Py_ssize_t = (written.shape[0] if cython.compiled else len(written)) // _WRITTEN_FIELDS
    room: cython.Py_ssize_t = target.shape[0] if cython.compiled else len(target)
    if start >= end:
        return AT_END, start, 0, 0, 0, 0, 0
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    out: cython.pointer[cython.uchar] = cython.address(target[0]) if cython.compiled else target
    with cython.nogil:
        while at < end:
            size = _batch_bytes(data, at, end)
            if size <= 0:
                status = _AT_END if size == 0 else _AT_DAMAGE
                break
            attributes = data[at + 22]
            base_offset = int64(data, at)
            last_delta = int32(data, at + 23)
            while special_index < special_count and special[special_index] < base_offset + last_delta:
                special_index += 1
            if attributes & _CODEC_TRANSACTION_CONTROL or (
                special_index < special_count and special[special_index] == base_offset + last_delta
            ):
                status = _AT_SPECIAL
                break
            count = int32(data, at + 57)
            # A count that cannot be true must not decide about the room; what it counts is found out below.
            if count > size // 7:
                status = _AT_DAMAGE
                break
            if done == done_max or out_at + size + count * _RECORD_GROWTH_MAX > room:
                status = _AT_FULL
                break
            base_timestamp = int64(data, at + 27)
            is_expired = attributes & _DELETE_HORIZON and base_timestamp <= now_ms
            is_rebased = False
            kept, keyless, has_tombstone, newest, out_end = _filter_records(
                offset_map,
                data,
                at + _HEADER_BYTES,
                at + size,
                count,
                base_offset,
                base_timestamp,
                last_delta,
                is_expired,
                False,
                False,
                0,
                out,
                out_at + _HEADER_BYTES,
            )
            if kept < 0:
                status = _AT_DAMAGE
                break
            if kept and has_tombstone and not attributes & _DELETE_HORIZON:
                is_rebased = True
                kept, keyless, has_tombstone, newest, out_end = _filter_records(
                    offset_map,
                    data,
                    at + _HEADER_BYTES,
                    at + size,
                    count,
                    base_offset,
                    base_timestamp,
                    last_delta,
                    is_expired,
                    False,
                    True,
                    horizon_ms,
                    out,
                    out_at + _HEADER_BYTES,
                )
                if kept < 0:
                    status = _AT_SPECIAL
                    break
            read_total += count
            kept_total += kept
            keyless_total += keyless
            if kept:
                if kept == count and not is_rebased:
                    out_end = put_piece(out, out_at, data, at, at + size)
                else:
                    put_piece(out, out_at, data, at, at + _HEADER_BYTES)
                    put32(out, out_at + 8, out_end - out_at - _BATCH_OVERHEAD)
                    put32(out, out_at + 57, kept)
                    if not attributes & _LOG_APPEND_TIME:
                        put64(out, out_at + 35, newest)
                    if is_rebased:
                        out[out_at + 22] = attributes | _DELETE_HORIZON
                        put64(out, out_at + 27, horizon_ms)
                written[done * _WRITTEN_FIELDS] = at
                written[done * _WRITTEN_FIELDS + 1] = out_at
                written[done * _WRITTEN_FIELDS + 2] = out_end - out_at
                written[done * _WRITTEN_FIELDS + 3] = base_offset + last_delta
                written[done * _WRITTEN_FIELDS + 4] = int64(out, out_at + 35)
                written[done * _WRITTEN_FIELDS + 5] = 1 if kept < count or is_rebased else 0
                done += 1
                out_at = out_end
            at += size
    return status, at, out_at, done, read_total, kept_total, keyless_total
