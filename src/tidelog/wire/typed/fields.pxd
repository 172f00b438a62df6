# How the fields of messages lie in bytes, for compiled modules: each has it inlined. `_plain_fields` is the same for plain Python,
# and says what each function does.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if PY_LITTLE_ENDIAN
    #define TIDELOG_SWAP16(value) __builtin_bswap16(value)
    #define TIDELOG_SWAP32(value) __builtin_bswap32(value)
    #define TIDELOG_SWAP64(value) __builtin_bswap64(value)
    #else
    #define TIDELOG_SWAP16(value) (value)
    #define TIDELOG_SWAP32(value) (value)
    #define TIDELOG_SWAP64(value) (value)
    #endif

    static inline long long tidelog_int8(const unsigned char *data, Py_ssize_t at) {
        return (signed char) data[at];
    }

    static inline long long tidelog_int16(const unsigned char *data, Py_ssize_t at) {
        uint16_t value;
        memcpy(&value, data + at, 2);
        return (int16_t) TIDELOG_SWAP16(value);
    }

    static inline long long tidelog_int32(const unsigned char *data, Py_ssize_t at) {
        uint32_t value;
        memcpy(&value, data + at, 4);
        return (int32_t) TIDELOG_SWAP32(value);
    }

    static inline long long tidelog_int64(const unsigned char *data, Py_ssize_t at) {
        uint64_t value;
        memcpy(&value, data + at, 8);
        return (int64_t) TIDELOG_SWAP64(value);
    }

    static inline void tidelog_put8(unsigned char *out, Py_ssize_t at, long long value) {
        out[at] = (unsigned char) value;
    }

    static inline void tidelog_put16(unsigned char *out, Py_ssize_t at, long long value) {
        uint16_t swapped = TIDELOG_SWAP16((uint16_t) value);
        memcpy(out + at, &swapped, 2);
    }

    static inline void tidelog_put32(unsigned char *out, Py_ssize_t at, long long value) {
        uint32_t swapped = TIDELOG_SWAP32((uint32_t) value);
        memcpy(out + at, &swapped, 4);
    }

    static inline void tidelog_put64(unsigned char *out, Py_ssize_t at, long long value) {
        uint64_t swapped = TIDELOG_SWAP64((uint64_t) value);
        memcpy(out + at, &swapped, 8);
    }

    static inline int tidelog_fits8(long long value) { return value == (int8_t) value; }
    static inline int tidelog_fits16(long long value) { return value == (int16_t) value; }
    static inline int tidelog_fits32(long long value) { return value == (int32_t) value; }
    static inline int tidelog_fits64(long long value) { (void) value; return 1; }

    /* Names come again and again (topics, groups, members): those that came last are kept, each in the one place that its bytes
       give it, so that a name is one object whose hash is known. Only ASCII, where bytes and letters are the same. */
    #define TIDELOG_TEXTS 512
    #define TIDELOG_TEXT_BYTES_MAX 64

    static PyObject *tidelog_texts[TIDELOG_TEXTS];

    static inline PyObject *tidelog_text(const unsigned char *data, Py_ssize_t at, Py_ssize_t length) {
        const unsigned char *letters = data + at;
        if (length == 0 || length > TIDELOG_TEXT_BYTES_MAX)
            return PyUnicode_DecodeUTF8((const char *) letters, length, "strict");
        uint64_t mixed = (uint64_t) length, word = 0;
        Py_ssize_t place = 0;
        for (; place + 8 <= length; place += 8) {
            memcpy(&word, letters + place, 8);
            mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
            mixed ^= mixed >> 32;
        }
        if (place < length) {
            word = 0;
            for (; place < length; place++) word = (word << 8) | letters[place];
            mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
            mixed ^= mixed >> 32;
        }
        PyObject **kept = &tidelog_texts[mixed % TIDELOG_TEXTS];
        if (*kept != NULL && PyUnicode_GET_LENGTH(*kept) == length
                && memcmp(PyUnicode_1BYTE_DATA(*kept), letters, (size_t) length) == 0) {
            Py_INCREF(*kept);
            return *kept;
        }
        PyObject *made = PyUnicode_DecodeUTF8((const char *) letters, length, "strict");
        if (made != NULL && PyUnicode_IS_COMPACT_ASCII(made)) {
            PyObject *before = *kept;
            Py_INCREF(made);
            *kept = made;
            Py_XDECREF(before);
        }
        return made;
    }

    static inline Py_ssize_t tidelog_text_bytes(PyObject *value) {
        Py_ssize_t count;
        if (!PyUnicode_CheckExact(value)) return -1;
        if (PyUnicode_IS_COMPACT_ASCII(value)) return PyUnicode_GET_LENGTH(value);
        if (PyUnicode_AsUTF8AndSize(value, &count) == NULL) {
            PyErr_Clear();
            return -1;
        }
        return count;
    }

    static inline Py_ssize_t tidelog_put_text(unsigned char *out, Py_ssize_t at, PyObject *value) {
        Py_ssize_t count;
        if (PyUnicode_IS_COMPACT_ASCII(value)) {
            count = PyUnicode_GET_LENGTH(value);
            memcpy(out + at, PyUnicode_1BYTE_DATA(value), (size_t) count);
        }
        else {
            /* Kept in the object since its bytes were counted. */
            const char *letters = PyUnicode_AsUTF8AndSize(value, &count);
            memcpy(out + at, letters, (size_t) count);
        }
        return at + count;
    }

    static inline int tidelog_is_uuid(PyObject *value) {
        return PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) == 16;
    }

    static inline Py_ssize_t tidelog_put_uuid(unsigned char *out, Py_ssize_t at, PyObject *value) {
        memcpy(out + at, PyBytes_AS_STRING(value), 16);
        return at + 16;
    }

    static inline PyObject *tidelog_uuid(const unsigned char *data, Py_ssize_t at) {
        return PyBytes_FromStringAndSize((const char *) data + at, 16);
    }

    static inline PyObject *tidelog_int32_list(const unsigned char *data, Py_ssize_t at, Py_ssize_t count) {
        PyObject *numbers = PyList_New(count);
        if (numbers == NULL) return NULL;
        for (Py_ssize_t place = 0; place < count; place++) {
            PyObject *number = PyLong_FromLong((long) tidelog_int32(data, at + 4 * place));
            if (number == NULL) {
                Py_DECREF(numbers);
                return NULL;
            }
            PyList_SET_ITEM(numbers, place, number);
        }
        return numbers;
    }

    static inline int tidelog_all_fit32(PyObject *numbers) {
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(numbers); place++) {
            PyObject *number = PyList_GET_ITEM(numbers, place);
            int beyond = 0;
            if (!PyLong_Check(number)) return 0;
            long long value = PyLong_AsLongLongAndOverflow(number, &beyond);
            if (beyond || !tidelog_fits32(value)) return 0;
        }
        return 1;
    }

    static inline Py_ssize_t tidelog_put_int32_list(unsigned char *out, Py_ssize_t at, PyObject *numbers) {
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(numbers); place++, at += 4)
            tidelog_put32(out, at, PyLong_AsLongLong(PyList_GET_ITEM(numbers, place)));
        return at;
    }

    static inline PyObject *tidelog_blank(PyObject *cls) {
        static PyObject *nothing = NULL;
        if (nothing == NULL && (nothing = PyTuple_New(0)) == NULL) return NULL;
        return ((PyTypeObject *) cls)->tp_new((PyTypeObject *) cls, nothing, NULL);
    }

    static inline Py_ssize_t tidelog_put_raw(unsigned char *out, Py_ssize_t at, const void *from, Py_ssize_t count) {
        memcpy(out + at, from, (size_t) count);
        return at + count;
    }
    """
    long long int8 "tidelog_int8"(const unsigned char *data, Py_ssize_t at) noexcept
    long long int16 "tidelog_int16"(const unsigned char *data, Py_ssize_t at) noexcept
    long long int32 "tidelog_int32"(const unsigned char *data, Py_ssize_t at) noexcept
    long long int64 "tidelog_int64"(const unsigned char *data, Py_ssize_t at) noexcept
    void put8 "tidelog_put8"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    void put16 "tidelog_put16"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    void put32 "tidelog_put32"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    void put64 "tidelog_put64"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    bint fits8 "tidelog_fits8"(long long value) noexcept
    bint fits16 "tidelog_fits16"(long long value) noexcept
    bint fits32 "tidelog_fits32"(long long value) noexcept
    bint fits64 "tidelog_fits64"(long long value) noexcept
    object text "tidelog_text"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length)
    Py_ssize_t text_bytes "tidelog_text_bytes"(object value) noexcept
    Py_ssize_t put_text "tidelog_put_text"(unsigned char *out, Py_ssize_t at, object value) noexcept
    bint is_uuid "tidelog_is_uuid"(object value) noexcept
    Py_ssize_t put_uuid "tidelog_put_uuid"(unsigned char *out, Py_ssize_t at, object value) noexcept
    object uuid "tidelog_uuid"(const unsigned char *data, Py_ssize_t at)
    list int32_list "tidelog_int32_list"(const unsigned char *data, Py_ssize_t at, Py_ssize_t count)
    bint all_fit32 "tidelog_all_fit32"(list numbers) noexcept
    Py_ssize_t put_int32_list "tidelog_put_int32_list"(unsigned char *out, Py_ssize_t at, list numbers) noexcept
    object blank "tidelog_blank"(object cls)
    Py_ssize_t put_raw "tidelog_put_raw"(unsigned char *out, Py_ssize_t at, const void *source, Py_ssize_t count) noexcept


cdef inline (long long, Py_ssize_t) uvarint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept:
    cdef long long byte
    cdef long long value = 0
    cdef int shift = 0
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


cdef inline (long long, Py_ssize_t) string_length(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible
) noexcept:
    cdef long long length
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
            if length > 0x8000:
                return -1, -1
        length -= 1
    else:
        if end - at < 2:
            return -1, -1
        length = int16(data, at)
        at += 2
        if length < -1:
            return -1, -1
    if length > end - at:
        return -1, -1
    return length, at


cdef inline (long long, Py_ssize_t) bytes_length(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible
) noexcept:
    cdef long long length
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
            if at < 0:
                return -1, -1
        length -= 1
    else:
        if end - at < 4:
            return -1, -1
        length = int32(data, at)
        at += 4
        if length < -1:
            return -1, -1
    if length > end - at:
        return -1, -1
    return length, at


cdef inline (long long, Py_ssize_t) array_length(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, bint flexible, long long size_min
) noexcept:
    cdef long long count
    count, at = bytes_length(data, at, end, flexible)
    if count > 0 and count * size_min > end - at:
        return -1, -1
    return count, at


cdef inline (long long, Py_ssize_t) tag_count(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end
) noexcept:
    cdef long long count
    count, at = uvarint(data, at, end)
    if count * 2 > end - at:
        return -1, -1
    return count, at


cdef inline (long long, Py_ssize_t, Py_ssize_t) tag_at(
    const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long long last
) noexcept:
    cdef long long tag
    cdef long long size
    tag, at = uvarint(data, at, end)
    if at < 0 or tag <= last:
        return -1, -1, -1
    size, at = uvarint(data, at, end)
    if at < 0 or size > end - at:
        return -1, -1, -1
    return tag, at, at + <Py_ssize_t> size


cdef inline Py_ssize_t skip_tags(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept:
    cdef long long count
    cdef long long last = -1
    cdef Py_ssize_t value_at
    if at < end and data[at] == 0:
        return at + 1
    count, at = tag_count(data, at, end)
    while count > 0 and at >= 0:
        count -= 1
        last, value_at, at = tag_at(data, at, end, last)
    return at


cdef inline Py_ssize_t uvarint_bytes(long long value) noexcept:
    cdef Py_ssize_t count = 1
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


cdef inline Py_ssize_t put_uvarint(unsigned char *out, Py_ssize_t at, long long value) noexcept:
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


cdef inline Py_ssize_t length_bytes(long long length, bint flexible) noexcept:
    return uvarint_bytes(length + 1) if flexible else 4


cdef inline Py_ssize_t put_length(unsigned char *out, Py_ssize_t at, long long length, bint flexible) noexcept:
    if flexible:
        return put_uvarint(out, at, length + 1)
    put32(out, at, length)
    return at + 4


cdef inline Py_ssize_t string_size(object value, bint flexible, bint nullable) noexcept:
    cdef Py_ssize_t count
    if value is None:
        if not nullable:
            return -1
        return 1 if flexible else 2
    count = text_bytes(value)
    if count < 0 or count > 0x7FFF:
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


# --- buffers -------------------------------------------------------------------------------------------------------------------

from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_GET_BUFFER


cdef inline const unsigned char *frame_start(memoryview frame) noexcept:
    return <const unsigned char *> PyMemoryView_GET_BUFFER(frame).buf


cdef inline const unsigned char *start_of(object buffer) except? NULL:
    cdef Py_buffer seen
    if PyBytes_CheckExact(buffer):
        return <const unsigned char *> PyBytes_AS_STRING(buffer)
    PyObject_GetBuffer(buffer, &seen, PyBUF_SIMPLE)
    # Whoever holds the buffer keeps its bytes where they are.
    PyBuffer_Release(&seen)
    return <const unsigned char *> seen.buf


cdef inline object new_room(Py_ssize_t size):
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline unsigned char *start_of_room(object room) noexcept:
    return <unsigned char *> PyBytes_AS_STRING(room)


cdef inline object filled(object room):
    return room


cdef inline object piece(unsigned char *out, Py_ssize_t start, Py_ssize_t stop):
    return PyBytes_FromStringAndSize(<const char *> out + start, stop - start)


cdef inline Py_ssize_t put_bytes(unsigned char *out, Py_ssize_t at, object source) except -2:
    cdef Py_buffer seen
    if PyBytes_CheckExact(source):
        return put_raw(out, at, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
    PyObject_GetBuffer(source, &seen, PyBUF_SIMPLE)
    at = put_raw(out, at, seen.buf, seen.len)
    PyBuffer_Release(&seen)
    return at
