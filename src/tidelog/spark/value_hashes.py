# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, type-arg"
"""The loops of `row_checksum`: a 64-bit hash of each value of an Arrow column, and of each row.

    stir(h, word)      h + word * P2, turned left by 31 bits, times P1: a round of XXH64 with one lane
    finish(h)          XXH64's avalanche, in which every bit comes to depend on every other

    a number           finish(stir(kind, its 64 bits))
    a decimal          of its unscaled number without zeros at the end, and the scale that belongs to it:
                       finish(stir(stir(kind, scale), number)); a number beyond 64 bits is stirred in word by word, low ones first
    text or bytes      finish(kind + length * P3, with each 8 bytes stirred in). The last word is the last 8 bytes, which may
                       begin in the one before; of less than 8 bytes it is what is there
    a list             finish(kind + length * P3, with the hash of each element stirred in)
    a map              the same, with the sum of its entries' hashes alone stirred in: they have no order
    a row, a struct    the sum over its columns of finish(stir(hash of the name as text, hash of the value)), as a number

All is modulo 2^64. The hash of a null is 0, and of nothing else. A null adds nothing to its row, so that it is the same as a
column that is not there: a table that gets another column does not change what it has.

Numbers are in the machine's order of bytes, which is little-endian wherever Arrow's own columns are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

# XXH64's third prime; the first and the second stand where they are used, which lets C fold them in.
_P3 = cython.declare(cython.ulonglong, 0x165667B19E3779F9)
# All bits, for the plain twin: numbers of C have no more.
_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

# Kinds of values: equal bits of two kinds are different values.
WHOLE = 1
FRACTION = 2
TEXT = 3
DECIMAL = 4
LIST = 5
MAP = 6
STRUCT = 7
_TEXT = cython.declare(cython.ulonglong, TEXT)
_DECIMAL = cython.declare(cython.ulonglong, DECIMAL)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _stir(h: cython.ulonglong, word: cython.ulonglong) -> cython.ulonglong:
    prime1: cython.ulonglong = 0x9E3779B185EBCA87
    prime2: cython.ulonglong = 0xC2B2AE3D27D4EB4F
    mask: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    h = (h + word * prime2) & mask
    h = ((h << 31) & mask) | (h >> 33)
    return (h * prime1) & mask


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _finish(h: cython.ulonglong) -> cython.ulonglong:
    prime2: cython.ulonglong = 0xC2B2AE3D27D4EB4F
    prime3: cython.ulonglong = 0x165667B19E3779F9
    mask: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    h ^= h >> 33
    h = (h * prime2) & mask
    h ^= h >> 29
    h = (h * prime3) & mask
    h ^= h >> 32
    # 0 is for nulls.
    return h or 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _hash_text(data: cython.pointer[cython.const[cython.uchar]], length: cython.Py_ssize_t) -> cython.ulonglong:
    h: cython.ulonglong = (_TEXT + cython.cast(cython.ulonglong, length) * _P3) & _ALL
    word: cython.ulonglong = 0
    low: cython.uint = 0
    high: cython.uint = 0
    at: cython.Py_ssize_t = 0
    if not cython.compiled:
        for at in range(0, length - 8, 8):
            h = _stir(h, int.from_bytes(data[at : at + 8], "little"))
        return _finish(_stir(h, int.from_bytes(data[max(0, length - 8) : length], "little")) if length else h)
    if length >= 8:
        while at + 8 < length:
            memcpy(cython.address(word), data + at, 8)
            h = _stir(h, word)
            at += 8
        memcpy(cython.address(word), data + length - 8, 8)
        h = _stir(h, word)
    elif length >= 4:
        memcpy(cython.address(low), data, 4)
        memcpy(cython.address(high), data + length - 4, 4)
        # The upper half begins with bytes that the lower one has as well.
        word = cython.cast(cython.ulonglong, high) << (8 * (length - 4)) | low
        h = _stir(h, word)
    elif length > 0:
        for at in range(length):
            word |= cython.cast(cython.ulonglong, data[at]) << (8 * at)
        h = _stir(h, word)
    return _finish(h)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_null(validity: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.bint:
    return not (validity[at >> 3] >> (at & 7)) & 1


def text_hash(text: bytes) -> int:
    """Of one value, such as the name of a column."""
    data: cython.const[cython.uchar][::1] = text
    if not cython.compiled:
        return _hash_text(data, len(text))
    elif len(text) == 0:  # noqa: RET505 - the compiler would call what follows unreachable
        return _hash_text(cython.NULL, 0)
    else:
        return _hash_text(cython.address(data[0]), len(text))


def decimal_hash(number: int, scale: int) -> int:
    """Of an unscaled number of any size; what `hash_decimals` has for those of 64 bits."""
    while number and number % 10 == 0:
        number //= 10
        scale -= 1
    h: cython.ulonglong = _stir(_DECIMAL, (scale if number else 0) & 0xFFFFFFFFFFFFFFFF)
    while True:
        h = _stir(h, number & 0xFFFFFFFFFFFFFFFF)
        # What is left is the sign alone, which the word before has.
        if -(2**63) <= number < 2**63:
            return _finish(h)
        number >>= 64


def check_offsets(offsets: cython.const[cython.longlong][::1], end: cython.longlong) -> None:
    """ValueError unless they rise within 0 and `end`: Arrow does not look at what it is given."""
    falls: cython.bint = False
    at: cython.Py_ssize_t
    # Without a way out in the middle, which makes it a loop of a few instructions for many rows.
    for at in range(len(offsets) - 1):
        falls |= offsets[at] > offsets[at + 1]
    if falls or offsets[0] < 0 or offsets[len(offsets) - 1] > end:
        raise ValueError("the offsets of an Arrow array do not rise, or point outside of its data")


def check_validity(validity: object, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> memoryview:
    """The bits of `count` rows from `first` on; of any length where there are none to look at."""
    if validity is None:
        return memoryview(b"\0")
    bits: memoryview = memoryview(validity).cast("B")  # type: ignore[arg-type]
    if first < 0 or 8 * len(bits) < first + count:
        raise ValueError("the validity bits of an Arrow array are shorter than it says")
    return bits


def hash_texts(
    offsets: cython.const[cython.longlong][::1],
    data: cython.const[cython.uchar][::1],
    validity: object,
    first: cython.Py_ssize_t,
    hashes: cython.ulonglong[::1],
) -> None:
    """Text or bytes: those of `hashes`' length that lie between `offsets`. Row 0 has the validity bit `first`."""
    count: cython.Py_ssize_t = len(hashes)
    bits: cython.const[cython.uchar][::1] = check_validity(validity, first, count)
    has_nulls: cython.bint = validity is not None
    row: cython.Py_ssize_t
    start: cython.longlong
    length: cython.longlong
    if len(offsets) != count + 1:
        raise ValueError("an Arrow array is shorter than it says")
    check_offsets(offsets, len(data))
    for row in range(count):
        if has_nulls and _is_null(bits, first + row):
            hashes[row] = 0
            continue
        start = offsets[row]
        length = offsets[row + 1] - start
        if not cython.compiled:
            hashes[row] = _hash_text(data[start : start + length], length)
        elif length == 0:
            hashes[row] = _hash_text(cython.NULL, 0)
        else:
            hashes[row] = _hash_text(cython.address(data[start]), length)


def hash_words(
    kind: cython.ulonglong,
    words: cython.const[cython.longlong][::1],
    validity: object,
    first: cython.Py_ssize_t,
    hashes: cython.ulonglong[::1],
) -> None:
    """Numbers, or whatever 64 bits say all of."""
    count: cython.Py_ssize_t = len(hashes)
    bits: cython.const[cython.uchar][::1] = check_validity(validity, first, count)
    has_nulls: cython.bint = validity is not None
    row: cython.Py_ssize_t
    if len(words) != count:
        raise ValueError("an Arrow array is shorter than it says")
    for row in range(count):
        if has_nulls and _is_null(bits, first + row):
            hashes[row] = 0
        else:
            hashes[row] = _finish(_stir(kind, cython.cast(cython.ulonglong, words[row])))


def hash_decimals(
    scale: cython.longlong,
    words: cython.const[cython.longlong][::1],
    validity: object,
    first: cython.Py_ssize_t,
    hashes: cython.ulonglong[::1],
) -> None:
    """Decimals of at most 18 digits. `words` has two of each, the low one first: it is all of the number."""
    count: cython.Py_ssize_t = len(hashes)
    bits: cython.const[cython.uchar][::1] = check_validity(validity, first, count)
    has_nulls: cython.bint = validity is not None
    row: cython.Py_ssize_t
    number: cython.longlong
    left: cython.longlong
    if len(words) != 2 * count:
        raise ValueError("an Arrow array is shorter than it says")
    for row in range(count):
        if has_nulls and _is_null(bits, first + row):
            hashes[row] = 0
            continue
        number = words[2 * row]
        left = scale if number else 0
        while number and number % 10 == 0:
            number //= 10
            left -= 1
        hashes[row] = _finish(
            _stir(_stir(_DECIMAL, cython.cast(cython.ulonglong, left)), cython.cast(cython.ulonglong, number))
        )


def hash_lists(
    kind: cython.ulonglong,
    offsets: cython.const[cython.longlong][::1],
    elements: cython.const[cython.ulonglong][::1],
    validity: object,
    first: cython.Py_ssize_t,
    hashes: cython.ulonglong[::1],
) -> None:
    """Lists and maps, by the hashes of all their elements; the first offset is that of the first of these."""
    count: cython.Py_ssize_t = len(hashes)
    bits: cython.const[cython.uchar][::1] = check_validity(validity, first, count)
    has_nulls: cython.bint = validity is not None
    is_map: cython.bint = kind == MAP
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    base: cython.longlong = offsets[0]
    h: cython.ulonglong
    total: cython.ulonglong
    if len(offsets) != count + 1:
        raise ValueError("an Arrow array is shorter than it says")
    check_offsets(offsets, base + len(elements))
    for row in range(count):
        if has_nulls and _is_null(bits, first + row):
            hashes[row] = 0
            continue
        start = offsets[row] - base
        end = offsets[row + 1] - base
        h = (kind + cython.cast(cython.ulonglong, end - start) * _P3) & _ALL
        total = 0
        for at in range(start, end):
            if is_map:
                total = (total + elements[at]) & _ALL
            else:
                h = _stir(h, elements[at])
        hashes[row] = _finish(_stir(h, total) if is_map else h)


def add_column(
    rows: cython.ulonglong[::1], name: cython.ulonglong, hashes: cython.const[cython.ulonglong][::1]
) -> None:
    """Add the values of a column to the rows that they belong to. `name` is the hash of its name."""
    row: cython.Py_ssize_t
    if len(rows) != len(hashes):
        raise ValueError("the columns differ in length")
    for row in range(len(rows)):
        if hashes[row]:
            rows[row] = (rows[row] + _finish(_stir(name, hashes[row]))) & _ALL


def add_constant(rows: cython.ulonglong[::1], name: cython.ulonglong, value: cython.ulonglong) -> None:
    """Add a column that has the same value, by its hash, in all rows."""
    row: cython.Py_ssize_t
    added: cython.ulonglong = _finish(_stir(name, value))
    for row in range(len(rows)):
        rows[row] = (rows[row] + added) & _ALL


def sum_rows(rows: cython.const[cython.ulonglong][::1]) -> int:
    """The sum of the rows' hashes modulo 2^64. Each is finished first: else values could change places between rows."""
    total: cython.ulonglong = 0
    row: cython.Py_ssize_t
    for row in range(len(rows)):
        total = (total + _finish(rows[row])) & _ALL
    return total
