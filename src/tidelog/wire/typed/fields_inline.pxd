# `fields` for compiled modules: each has its functions inlined. Written by tools/inline_functions.py; not to be edited.

cimport cython

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
)
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
)
from tidelog.wire.typed.fields_c cimport (
    c_all_fit32,
    c_blank,
    c_frame_start,
    c_int8,
    c_int16,
    c_int32,
    c_int32_list,
    c_int64,
    c_is_uuid,
    c_put16,
    c_put32,
    c_put64,
    c_put_bytes,
    c_put_int32_list,
    c_put_text,
    c_put_uuid,
    c_start_of,
    c_text,
    c_text_bytes,
    c_uint32,
    c_uuid,
    c_writable_start,
)

cdef enum:
    STRING_BYTES_MAX = 0x7fff
    UUID_BYTES = 0x10


cdef inline long long int8(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return c_int8(data, at)


cdef inline long long int16(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return c_int16(data, at)


cdef inline long long int32(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return c_int32(data, at)


cdef inline long long uint32(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return c_uint32(data, at)


cdef inline long long int64(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    return c_int64(data, at)


cdef inline void put8(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    out[at] = value & 0xFF


cdef inline void put16(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    c_put16(out, at, value)


cdef inline void put32(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    c_put32(out, at, value)


cdef inline void put64(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    c_put64(out, at, value)


cdef inline bint fits8(long long value) noexcept nogil:
    return -0x80 <= value <= 0x7F


cdef inline bint fits16(long long value) noexcept nogil:
    return -0x8000 <= value <= 0x7FFF


cdef inline bint fits32(long long value) noexcept nogil:
    return -0x8000_0000 <= value <= 0x7FFF_FFFF


cdef inline bint fits64(long long value) noexcept nogil:
    return True


cdef inline list int32_list(const unsigned char *data, Py_ssize_t at, Py_ssize_t count):
    return c_int32_list(data, at, count)


cdef inline bint all_fit32(list numbers) noexcept:
    return c_all_fit32(numbers)


cdef inline Py_ssize_t put_int32_list(unsigned char *out, Py_ssize_t at, list numbers) noexcept:
    return c_put_int32_list(out, at, numbers)


cdef inline list int8_list(const unsigned char *data, Py_ssize_t at, Py_ssize_t count):
    cdef list numbers = []
    while count > 0:
        numbers.append(int8(data, at))
        at += 1
        count -= 1
    return numbers


cdef inline bint all_fit8(list numbers) noexcept:
    cdef Py_ssize_t place = len(numbers)
    while place > 0:
        place -= 1
        if not isinstance(numbers[place], int) or numbers[place] < -0x80 or numbers[place] > 0x7F:
            return False
    return True


cdef inline Py_ssize_t put_int8_list(unsigned char *out, Py_ssize_t at, list numbers) noexcept:
    cdef Py_ssize_t place = 0
    while place < len(numbers):
        put8(out, at + place, numbers[place])
        place += 1
    return at + place


cdef inline (long long, Py_ssize_t) uvarint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long byte
    cdef long long value = 0
    cdef long long shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            if shift == 28 and byte >= 16:
                break
            return value | (byte << shift), at
        if shift == 28:
            break
        value |= (byte & 0x7F) << shift
        shift += 7
    return -1, -1


cdef inline (long long, Py_ssize_t) string_length(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible) noexcept nogil:
    cdef long long length
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
            if length > STRING_BYTES_MAX + 1:
                return -1, -1
        length -= 1
    else:
        if end - at < 2:
            return -1, -1
        length = int16(data, at)
        at += 2
    if length < -1 or length > end - at:
        return -1, -1
    return length, at


cdef inline (long long, Py_ssize_t) bytes_length(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible) noexcept nogil:
    cdef long long length
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
        length -= 1
    else:
        if end - at < 4:
            return -1, -1
        length = int32(data, at)
        at += 4
    if length < -1 or length > end - at:
        return -1, -1
    return length, at


cdef inline (long long, Py_ssize_t) array_length(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible, long long size_min) noexcept nogil:
    cdef long long count
    count, at = bytes_length(data, at, end, flexible)
    if count > 0 and count * size_min > end - at:
        return -1, -1
    return count, at


cdef inline Py_ssize_t uvarint_bytes(long long value) noexcept nogil:
    cdef Py_ssize_t count = 1
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


cdef inline Py_ssize_t put_uvarint(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


cdef inline Py_ssize_t length_bytes(long long length, bint flexible) noexcept nogil:
    return uvarint_bytes(length + 1) if flexible else 4


cdef inline Py_ssize_t put_length(unsigned char *out, Py_ssize_t at, long long length, bint flexible) noexcept nogil:
    if flexible:
        return put_uvarint(out, at, length + 1)
    put32(out, at, length)
    return at + 4


cdef inline object text(const unsigned char *data, Py_ssize_t at, Py_ssize_t length):
    return c_text(data, at, length)


cdef inline Py_ssize_t text_bytes(object value) noexcept:
    return c_text_bytes(value)


cdef inline Py_ssize_t put_text(unsigned char *out, Py_ssize_t at, object value) noexcept:
    return c_put_text(out, at, value)


cdef inline Py_ssize_t string_size(object value, bint flexible, bint nullable) noexcept:
    cdef Py_ssize_t count
    if value is None:
        if not nullable:
            return -1
        return 1 if flexible else 2
    count = text_bytes(value)
    if count < 0 or count > STRING_BYTES_MAX:
        return -1
    return count + (uvarint_bytes(count + 1) if flexible else 2)


cdef inline Py_ssize_t put_string(unsigned char *out, Py_ssize_t at, object value, bint flexible) noexcept:
    cdef Py_ssize_t count = -1 if value is None else text_bytes(value)
    if flexible:
        at = put_uvarint(out, at, count + 1)
    else:
        put16(out, at, count)
        at += 2
    return at if value is None else put_text(out, at, value)


cdef inline bytes uuid(const unsigned char *data, Py_ssize_t at):
    return c_uuid(data, at)


cdef inline bint is_uuid(object value) noexcept:
    return c_is_uuid(value)


cdef inline Py_ssize_t put_uuid(unsigned char *out, Py_ssize_t at, object value) noexcept:
    return c_put_uuid(out, at, value)


cdef inline (long long, Py_ssize_t) tag_count(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long count
    count, at = uvarint(data, at, end)
    if count * 2 > end - at:
        return -1, -1
    return count, at


cdef inline (long long, Py_ssize_t, Py_ssize_t) tag_at(const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long last) noexcept nogil:
    cdef long long tag
    cdef long long size
    tag, at = uvarint(data, at, end)
    if at < 0 or tag <= last:
        return -1, -1, -1
    size, at = uvarint(data, at, end)
    if at < 0 or size > end - at:
        return -1, -1, -1
    return tag, at, at + size


cdef inline Py_ssize_t skip_tags(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long count
    cdef long long last = -1
    cdef Py_ssize_t _value_at
    if at < end and data[at] == 0:
        return at + 1
    count, at = tag_count(data, at, end)
    while count > 0 and at >= 0:
        count -= 1
        last, _value_at, at = tag_at(data, at, end, last)
    return at


cdef inline const unsigned char *frame_start(memoryview frame) noexcept:
    return c_frame_start(frame)


cdef inline unsigned char *writable_start(memoryview frame) noexcept:
    return c_writable_start(frame)


cdef inline const unsigned char *start_of(object buffer) except? NULL:
    return c_start_of(buffer)


cdef inline unsigned char *room_in(bytearray buffer) noexcept:
    return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer))


cdef inline object blank(object cls):
    return c_blank(cls)


cdef inline object new_room(Py_ssize_t size):
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline unsigned char *start_of_room(object room) noexcept:
    return cython.cast(cython.p_uchar, PyBytes_AS_STRING(room))


cdef inline bytes filled(object room):
    return cython.cast(bytes, room)


cdef inline bytes piece(unsigned char *out, Py_ssize_t start, Py_ssize_t stop):
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, out) + start, stop - start)


cdef inline Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, object source) except -2:
    return c_put_bytes(out, at, source)
