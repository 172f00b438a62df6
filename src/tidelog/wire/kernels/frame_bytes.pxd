# What the kernels that read requests and write records have in common, for their compiled twins: each has it inlined.
# `_plain_frame_bytes` is the same for the plain ones, and says what each function does.

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.string cimport memcpy


cdef inline const unsigned char *bytes_of(memoryview frame) noexcept:
    return <const unsigned char *> PyMemoryView_GET_BUFFER(frame).buf


cdef inline unsigned char *writable_bytes_of(memoryview frame) noexcept:
    return NULL if PyMemoryView_GET_BUFFER(frame).readonly else <unsigned char *> PyMemoryView_GET_BUFFER(frame).buf


cdef inline unsigned char *room_in(bytearray buffer) noexcept:
    return <unsigned char *> PyByteArray_AS_STRING(buffer)


cdef inline long long int16(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef long long value = (data[at] << 8) | data[at + 1]
    return value - 0x10000 if value >= 0x8000 else value


cdef inline long long uint32(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef long long high = (data[at] << 8) | data[at + 1]
    cdef long long low = (data[at + 2] << 8) | data[at + 3]
    return (high << 16) | low


cdef inline long long int32(const unsigned char *data, Py_ssize_t at) noexcept:
    cdef long long value = uint32(data, at)
    return value - 0x100000000LL if value >= 0x80000000LL else value


cdef inline long long int64(const unsigned char *data, Py_ssize_t at) noexcept:
    # The high half is signed, so that no shift leaves the number's range.
    return int32(data, at) * 0x100000000LL + uint32(data, at + 4)


cdef inline (long long, Py_ssize_t) length_at(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint is_flexible, bint is_short
) noexcept:
    cdef long long byte
    cdef long long value = 0
    cdef int shift = 0
    if is_flexible:
        while at < end and shift < 28:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (-2 if byte == 0 and shift > 0 else value - 1), at
            shift += 7
        return -2, at
    if is_short:
        if end - at >= 2:
            value = int16(data, at)
            return (value if value >= -1 else -2), at + 2
    elif end - at >= 4:
        value = int32(data, at)
        return (value if value >= 0 else -2), at + 4
    return -2, at


cdef inline Py_ssize_t after_letters(
    const unsigned char *data, Py_ssize_t at, long long length, Py_ssize_t end
) noexcept:
    cdef Py_ssize_t stop = at + length
    if stop > end:
        return -1
    while at < stop:
        if data[at] >= 0x80:
            return -1
        at += 1
    return at


cdef inline Py_ssize_t header_end(const unsigned char *data, Py_ssize_t end, bint is_flexible) noexcept:
    cdef Py_ssize_t at
    cdef long long length
    length, at = length_at(data, 8, end, False, True)
    if length < -1:
        return -1
    if length > 0:
        at = after_letters(data, at, length, end)
        if at < 0:
            return -1
    if is_flexible:
        if at >= end or data[at] != 0:
            return -1
        at += 1
    return at


cdef inline object text_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long length):
    if length < 0 or after_letters(data, at, length, end) < 0:
        return None
    return PyUnicode_DecodeASCII(<const char *> &data[at], length, NULL)


cdef inline void put16(unsigned char *out, Py_ssize_t at, long long value) noexcept:
    out[at] = (value >> 8) & 0xFF
    out[at + 1] = value & 0xFF


cdef inline void put32(unsigned char *out, Py_ssize_t at, long long value) noexcept:
    put16(out, at, value >> 16)
    put16(out, at + 2, value)


cdef inline void put64(unsigned char *out, Py_ssize_t at, long long value) noexcept:
    put32(out, at, value >> 32)
    put32(out, at + 4, value)


cdef inline Py_ssize_t put_varint(unsigned char *out, Py_ssize_t at, long long value, int shift) noexcept:
    value <<= shift
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


cdef inline long long varint_bytes(long long value, int shift) noexcept:
    cdef long long count = 1
    value <<= shift
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


cdef inline Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, bytes text):
    cdef Py_ssize_t count = len(text)
    memcpy(&out[at], PyBytes_AS_STRING(text), count)
    return at + count


cdef inline long long record_body_bytes(long long number, long long key_bytes, long long value_bytes) noexcept:
    cdef long long lengths = varint_bytes(number, 1) + varint_bytes(key_bytes, 1) + varint_bytes(value_bytes, 1)
    return 3 + lengths + key_bytes + value_bytes
