# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""The loops of compaction: which offset each key was written at last, and which records of a batch stay.

This is one source for two twins: it runs as plain Python, and `setup.py` compiles it to `_cleaning_kernel`. The compiled twin
works without the interpreter's lock, so that an event loop on another thread goes on meanwhile, and it checks no index by itself:
every read of a batch's bytes is checked here, against the end of what holds it.

`*_run` walk along the batches of a window of a log file as long as these are plain (no codec, no transaction, nothing that has to
stay for its producer's sake); `*_records` do one batch whose records are unpacked. `tidelog.storage.cleaning` has the contracts.

The two twins hash keys differently: what a table holds never leaves the process.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.libc.stdlib import calloc, free
    from cython.cimports.libc.string import memcpy

# What a slot takes: 128 bits of hash and an offset; or what a dictionary takes for a key of 16 bytes and a number.
SLOT_BYTES = 24 if cython.compiled else 240

# How a run ends.
AT_END = 0
"""All whole batches of the window are done."""
AT_SPECIAL = 1
"""The batch at the position is not plain."""
AT_FULL = 2
"""The table, the output or the list of batches is full. The batch at the position is not done."""
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
# SipHash's own: "somepseudorandomlygeneratedbytes", and what makes it one of 128 bits.
_SIP0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_SIP1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D ^ 0xEE)
_SIP2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_SIP3 = cython.declare(cython.ulonglong, 0x7465646279746573)
_UINT32_END = cython.declare(cython.longlong, 2**32)
_INT32_END = cython.declare(cython.longlong, 2**31)
_HASHED_PROBES = cython.declare(cython.longlong, 16)


@cython.final
@cython.cclass
class OffsetTable:
    """The last offset of each key, for at most `slots` keys, of which a caller leaves some free.

    A key is known by 128 bits of a hash that is keyed with `salt`: nobody can write keys that are taken for each other.
    """

    words: cython.pointer[cython.ulonglong]
    slots: cython.Py_ssize_t
    entries: cython.Py_ssize_t
    key0: cython.ulonglong
    key1: cython.ulonglong
    offsets: dict[bytes, int]
    salt: bytes

    def __init__(self, slots: cython.Py_ssize_t, salt: bytes) -> None:
        if slots < 1 or len(salt) != 16:
            raise ValueError("a table needs a slot, and 16 bytes of salt")
        self.slots = slots
        self.entries = 0
        self.salt = salt
        self.offsets = {}
        if cython.compiled:
            self.key0 = int.from_bytes(salt[:8], "little")
            self.key1 = int.from_bytes(salt[8:], "little")
            self.words = cython.cast(cython.pointer[cython.ulonglong], calloc(slots, 24))
            if self.words is cython.NULL:
                raise MemoryError(f"there is no memory for a table of {slots} keys")

    def __len__(self) -> int:
        return self.entries if cython.compiled else len(self.offsets)

    if cython.compiled:

        def __dealloc__(self) -> None:
            free(self.words)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sip_round(v: cython.pointer[cython.ulonglong]) -> cython.void:
    v[0] += v[1]
    v[1] = ((v[1] << 13) | (v[1] >> 51)) ^ v[0]
    v[0] = (v[0] << 32) | (v[0] >> 32)
    v[2] += v[3]
    v[3] = ((v[3] << 16) | (v[3] >> 48)) ^ v[2]
    v[0] += v[3]
    v[3] = ((v[3] << 21) | (v[3] >> 43)) ^ v[0]
    v[2] += v[1]
    v[1] = ((v[1] << 17) | (v[1] >> 47)) ^ v[2]
    v[2] = (v[2] << 32) | (v[2] >> 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hash(
    table: OffsetTable,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> tuple[cython.ulonglong, cython.ulonglong]:
    """SipHash-2-4 with 128 bits of result. Only the compiled twin calls it."""
    v: cython.ulonglong[4] = [table.key0 ^ _SIP0, table.key1 ^ _SIP1, table.key0 ^ _SIP2, table.key1 ^ _SIP3]
    word: cython.ulonglong = 0
    first: cython.ulonglong
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + length
    _number: cython.int
    while end - at >= 8:
        memcpy(cython.address(word), data + at, 8)
        at += 8
        v[3] ^= word
        _sip_round(v)
        _sip_round(v)
        v[0] ^= word
    word = 0
    memcpy(cython.address(word), data + at, end - at)
    # The top byte is free: of a last piece there are seven bytes at most.
    word |= cython.cast(cython.ulonglong, length) << 56
    v[3] ^= word
    _sip_round(v)
    _sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for _number in range(4):
        _sip_round(v)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for _number in range(4):
        _sip_round(v)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_slot(
    table: OffsetTable, first: cython.ulonglong, second: cython.ulonglong
) -> cython.pointer[cython.ulonglong]:
    """Where the key with this hash is, or would be. There is always a free slot: the caller sees to that."""
    slots: cython.ulonglong = table.slots
    probe: cython.ulonglong = 0
    at: cython.ulonglong = first % slots
    words: cython.pointer[cython.ulonglong]
    while True:
        words = table.words + 3 * at
        # Offsets are stored plus one, so that 0 is a slot nobody has used.
        if words[2] == 0 or (words[0] == first and words[1] == second):
            return words
        probe += 1
        # First here and there, so that keys do not pile up in a table that is nearly full; then one after the other, so that the
        # free slot is found in the end.
        at = (first + probe * second) % slots if probe < _HASHED_PROBES else (at + 1) % slots


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(
    table: OffsetTable,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
    offset: cython.longlong,
) -> cython.void:
    first: cython.ulonglong
    second: cython.ulonglong
    slot: cython.pointer[cython.ulonglong]
    if cython.compiled:
        first, second = _hash(table, data, start, length)
        slot = _find_slot(table, first, second)
        if slot[2] == 0:
            slot[0] = first
            slot[1] = second
            table.entries += 1
        slot[2] = offset + 1
    else:
        table.offsets[blake2b(data[start : start + length], digest_size=16, key=table.salt).digest()] = offset
        table.entries = len(table.offsets)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _last_offset(
    table: OffsetTable,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> cython.longlong:
    """Of a key; -1 where it is not in the table."""
    first: cython.ulonglong
    second: cython.ulonglong
    slot: cython.pointer[cython.ulonglong]
    if cython.compiled:
        first, second = _hash(table, data, start, length)
        slot = _find_slot(table, first, second)
        return cython.cast(cython.longlong, slot[2]) - 1
    else:  # noqa: RET505 - the compiler sees one of the two only
        return table.offsets.get(blake2b(data[start : start + length], digest_size=16, key=table.salt).digest(), -1)


# --- reading -----------------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _uint32(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = (data[at] << 8) | data[at + 1]
    low: cython.longlong = (data[at + 2] << 8) | data[at + 3]
    return (high << 16) | low


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int32(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _uint32(data, at)
    return value - _UINT32_END if value >= _INT32_END else value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _int64(data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t) -> cython.longlong:
    # The high half is signed, so that no shift leaves the number's range.
    return _int32(data, at) * _UINT32_END + _uint32(data, at + 4)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_varint(
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    bit_count: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """A zigzag number of so many bits and where it ends: -1 where there is none."""
    byte: cython.ulonglong
    bits: cython.ulonglong = 0
    shift: cython.int = 0
    while position < end and shift < bit_count:
        byte = data[position]
        position += 1
        # Bits beyond the number's last would be lost unseen.
        if shift + 7 > bit_count and byte >> (bit_count - shift):
            return 0, -1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    return 0, -1


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

    length, body = _read_varint(data, position, end, 32)
    # Behind its length a record takes six bytes at least.
    if body < 0 or length < 6 or length > end - body:
        return -1, 0, 0, 0, 0, 0, 0, False
    end = body + length
    timestamp_delta, timestamp_end = _read_varint(data, body + 1, end, 64)
    if timestamp_end < 0:
        return -1, 0, 0, 0, 0, 0, 0, False
    offset_delta, position = _read_varint(data, timestamp_end, end, 32)
    if position < 0 or offset_delta <= previous_delta or offset_delta > last_delta:
        return -1, 0, 0, 0, 0, 0, 0, False
    key_length, key_start = _read_varint(data, position, end, 32)
    if key_start < 0 or key_length < -1 or key_length > end - key_start:
        return -1, 0, 0, 0, 0, 0, 0, False
    position = key_start + key_length if key_length > 0 else key_start
    value_length, value_start = _read_varint(data, position, end, 32)
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
    length = _int32(data, at + 8)
    if (
        data[at + 16] != _MAGIC
        or length < _HEADER_BYTES - _BATCH_OVERHEAD
        or _int32(data, at + 23) < 0
        or _int32(data, at + 57) < 0
        or _int64(data, at) < 0
        or _int64(data, at) > _INT64_MAX - _int32(data, at + 23)
    ):
        return -1
    return length + _BATCH_OVERHEAD if length + _BATCH_OVERHEAD <= end - at else 0


# --- the last offset of each key ----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _index_records(
    table: OffsetTable,
    entries_max: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    last_delta: cython.longlong,
    first_offset: cython.longlong,
    latest: cython.longlong,
) -> tuple[cython.longlong, cython.longlong]:
    """How it ended, and the last offset that the table covers."""
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
            return _AT_DAMAGE, latest
        previous_delta = offset_delta
        position = record_end
        if key_length >= 0 and base_offset + offset_delta >= first_offset:
            if table.entries >= entries_max:
                return _AT_FULL, latest
            latest = base_offset + offset_delta
            _put(table, data, key_start, key_length, latest)
    if position != end:
        return _AT_DAMAGE, latest
    return _AT_END, latest


def index_records(
    table: OffsetTable,
    entries_max: cython.Py_ssize_t,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    last_delta: cython.longlong,
    first_offset: cython.longlong,
    latest: cython.longlong,
) -> tuple[int, int]:
    """Take the records of one batch into the table, from `first_offset` on: how it ended, and up to where the table goes."""
    status: cython.longlong
    if count == 0:
        return AT_END, latest
    data: cython.pointer[cython.const[cython.uchar]] = cython.address(source[0]) if cython.compiled else source
    with cython.nogil:
        status, latest = _index_records(
            table, entries_max, data, start, end, count, base_offset, last_delta, first_offset, latest
        )
    return status, latest


def index_run(
    table: OffsetTable,
    entries_max: cython.Py_ssize_t,
    source: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    first_offset: cython.longlong,
    latest: cython.longlong,
    starts: cython.longlong[::1],
) -> tuple[int, int, int, int]:
    """Take plain batches into the table: how it ended, where, up to which offset the table goes, and how many batches were done.

    Where each of those begins is noted in `starts`; the next one begins where it ends.
    """
    status: cython.longlong = _AT_END
    at: cython.Py_ssize_t = start
    size: cython.longlong
    last_delta: cython.longlong
    done: cython.Py_ssize_t = 0
    done_max: cython.Py_ssize_t = starts.shape[0] if cython.compiled else len(starts)
    if start >= end:
        return AT_END, start, latest, 0
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
            last_delta = _int32(data, at + 23)
            status, latest = _index_records(
                table,
                entries_max,
                data,
                at + _HEADER_BYTES,
                at + size,
                _int32(data, at + 57),
                _int64(data, at),
                last_delta,
                first_offset,
                latest,
            )
            if status != _AT_END:
                break
            if _int64(data, at) + last_delta >= first_offset:
                latest = _int64(data, at) + last_delta
            starts[done] = at
            done += 1
            at += size
    return status, at, latest, done


# --- which records stay -------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: cython.pointer[cython.uchar],
    position: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    if cython.compiled:
        memcpy(out + position, data + start, end - start)
    else:
        out[position : position + end - start] = data[start:end]
    return position + end - start


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_varint(
    out: cython.pointer[cython.uchar], position: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    bits: cython.ulonglong = (number << 1) ^ (number >> 63)
    while bits >= 0x80:
        out[position] = (bits & 0x7F) | 0x80
        bits >>= 7
        position += 1
    out[position] = bits
    return position + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint_bytes(number: cython.longlong) -> cython.Py_ssize_t:
    bits: cython.ulonglong = (number << 1) ^ (number >> 63)
    size: cython.Py_ssize_t = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _filter_records(
    table: OffsetTable,
    latest: cython.longlong,
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
        if keeps_all or offset > latest:
            is_kept = True
        elif key_length < 0:
            keyless += 1
            is_kept = False
        else:
            is_kept = (has_value or not is_expired) and offset >= _last_offset(table, data, key_start, key_length)
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
                out_position = _write_varint(
                    out, out_position, record_end - timestamp_end + 1 + _varint_bytes(timestamp - new_base)
                )
                out[out_position] = data[body]
                out_position = _write_varint(out, out_position + 1, timestamp - new_base)
                out_position = _copy(out, out_position, data, timestamp_end, record_end)
            elif piece_end == position:
                piece_end = record_end
            else:
                out_position = _copy(out, out_position, data, piece_start, piece_end)
                piece_start, piece_end = position, record_end
        position = record_end
    if position != end:
        return -1, 0, False, 0, 0
    if not is_rebased:
        out_position = _copy(out, out_position, data, piece_start, piece_end)
    return kept, keyless, has_tombstone, newest, out_position


def filter_records(
    table: OffsetTable,
    latest: cython.longlong,
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
            table,
            latest,
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_number(
    out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, size: cython.int, number: cython.longlong
) -> cython.void:
    """Big-endian, in so many bytes."""
    index: cython.int
    for index in range(size):
        out[at + size - 1 - index] = number & 0xFF
        number >>= 8


def filter_run(
    table: OffsetTable,
    latest: cython.longlong,
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
            base_offset = _int64(data, at)
            last_delta = _int32(data, at + 23)
            while special_index < special_count and special[special_index] < base_offset + last_delta:
                special_index += 1
            if attributes & _CODEC_TRANSACTION_CONTROL or (
                special_index < special_count and special[special_index] == base_offset + last_delta
            ):
                status = _AT_SPECIAL
                break
            count = _int32(data, at + 57)
            # A count that cannot be true must not decide about the room; what it counts is found out below.
            if count > size // 7:
                status = _AT_DAMAGE
                break
            if done == done_max or out_at + size + count * _RECORD_GROWTH_MAX > room:
                status = _AT_FULL
                break
            base_timestamp = _int64(data, at + 27)
            is_expired = attributes & _DELETE_HORIZON and base_timestamp <= now_ms
            is_rebased = False
            kept, keyless, has_tombstone, newest, out_end = _filter_records(
                table,
                latest,
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
                    table,
                    latest,
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
                    out_end = _copy(out, out_at, data, at, at + size)
                else:
                    _copy(out, out_at, data, at, at + _HEADER_BYTES)
                    _put_number(out, out_at + 8, 4, out_end - out_at - _BATCH_OVERHEAD)
                    _put_number(out, out_at + 57, 4, kept)
                    if not attributes & _LOG_APPEND_TIME:
                        _put_number(out, out_at + 35, 8, newest)
                    if is_rebased:
                        out[out_at + 22] = attributes | _DELETE_HORIZON
                        _put_number(out, out_at + 27, 8, horizon_ms)
                written[done * _WRITTEN_FIELDS] = at
                written[done * _WRITTEN_FIELDS + 1] = out_at
                written[done * _WRITTEN_FIELDS + 2] = out_end - out_at
                written[done * _WRITTEN_FIELDS + 3] = base_offset + last_delta
                written[done * _WRITTEN_FIELDS + 4] = _int64(out, out_at + 35)
                written[done * _WRITTEN_FIELDS + 5] = 1 if kept < count or is_rebased else 0
                done += 1
                out_at = out_end
            at += size
    return status, at, out_at, done, read_total, kept_total, keyless_total
