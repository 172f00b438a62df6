# `record_fields` for compiled modules: each has its functions inlined. Written by tools/inline_functions.py; not to be edited.

cimport cython

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
)
from libc.string cimport (
    memcpy,
)


cdef inline (long long, Py_ssize_t) read_varint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long byte
    if at < end:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        return read_long_varint(data, at, end, 32)
    return 0, -1


cdef inline (long long, Py_ssize_t) read_long_varint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long bit_count) noexcept nogil:
    cdef unsigned long long byte
    cdef unsigned long long bits = 0
    cdef long long shift = 0
    while at < end and shift < bit_count:
        byte = data[at]
        at += 1
        if shift + 7 > bit_count and byte >> (bit_count - shift):
            return 0, -1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    return 0, -1


cdef inline Py_ssize_t varint_bytes(long long number) noexcept nogil:
    cdef unsigned long long bits = (number << 1) ^ (number >> 63)
    cdef Py_ssize_t size = 3
    if bits < 0x80:
        return 1
    if bits < 0x4000:
        return 2
    bits >>= 21
    while bits:
        bits >>= 7
        size += 1
    return size


cdef inline Py_ssize_t put_varint(unsigned char *out, Py_ssize_t at, long long number) noexcept nogil:
    cdef unsigned long long bits = (number << 1) ^ (number >> 63)
    while bits >= 0x80:
        out[at] = (bits & 0x7F) | 0x80
        bits >>= 7
        at += 1
    out[at] = bits
    return at + 1


cdef inline bytes varint(long long number):
    cdef bytes made
    made = PyBytes_FromStringAndSize(NULL, varint_bytes(number))
    put_varint(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)), 0, number)
    return made


cdef inline Py_ssize_t put_piece(unsigned char *out, Py_ssize_t at, const unsigned char *data, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    memcpy(cython.address(out[at]), cython.address(data[start]), end - start)
    return at + end - start


cdef inline Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, bytes data) noexcept:
    cdef Py_ssize_t count = len(data)
    memcpy(cython.address(out[at]), PyBytes_AS_STRING(data), count)
    return at + count


cdef inline long long record_body_bytes(long long number, long long key_bytes, long long value_bytes) noexcept nogil:
    return 3 + varint_bytes(number) + varint_bytes(key_bytes) + varint_bytes(value_bytes) + key_bytes + value_bytes
