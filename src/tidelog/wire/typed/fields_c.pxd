# What is C in `fields`, and cannot be said in Python: the order of bytes, the names that came last, objects made in one go.

from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_GET_BUFFER

cdef extern from * nogil:
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

    static inline long long tidelog_uint32(const unsigned char *data, Py_ssize_t at) {
        uint32_t value;
        memcpy(&value, data + at, 4);
        return (long long) TIDELOG_SWAP32(value);
    }

    static inline long long tidelog_int64(const unsigned char *data, Py_ssize_t at) {
        uint64_t value;
        memcpy(&value, data + at, 8);
        return (int64_t) TIDELOG_SWAP64(value);
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

    static inline int tidelog_fits32(long long value) { return value == (int32_t) value; }

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
    long long c_int8 "tidelog_int8"(const unsigned char *data, Py_ssize_t at) noexcept
    long long c_int16 "tidelog_int16"(const unsigned char *data, Py_ssize_t at) noexcept
    long long c_int32 "tidelog_int32"(const unsigned char *data, Py_ssize_t at) noexcept
    long long c_uint32 "tidelog_uint32"(const unsigned char *data, Py_ssize_t at) noexcept
    long long c_int64 "tidelog_int64"(const unsigned char *data, Py_ssize_t at) noexcept
    void c_put16 "tidelog_put16"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    void c_put32 "tidelog_put32"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    void c_put64 "tidelog_put64"(unsigned char *out, Py_ssize_t at, long long value) noexcept
    Py_ssize_t c_put_raw "tidelog_put_raw"(unsigned char *out, Py_ssize_t at, const void *source, Py_ssize_t count) noexcept

cdef extern from *:
    object c_text "tidelog_text"(const unsigned char *data, Py_ssize_t at, Py_ssize_t length)
    Py_ssize_t c_text_bytes "tidelog_text_bytes"(object value) noexcept
    Py_ssize_t c_put_text "tidelog_put_text"(unsigned char *out, Py_ssize_t at, object value) noexcept
    bint c_is_uuid "tidelog_is_uuid"(object value) noexcept
    Py_ssize_t c_put_uuid "tidelog_put_uuid"(unsigned char *out, Py_ssize_t at, object value) noexcept
    bytes c_uuid "tidelog_uuid"(const unsigned char *data, Py_ssize_t at)
    list c_int32_list "tidelog_int32_list"(const unsigned char *data, Py_ssize_t at, Py_ssize_t count)
    bint c_all_fit32 "tidelog_all_fit32"(list numbers) noexcept
    Py_ssize_t c_put_int32_list "tidelog_put_int32_list"(unsigned char *out, Py_ssize_t at, list numbers) noexcept
    object c_blank "tidelog_blank"(object cls)


cdef inline const unsigned char *c_frame_start(memoryview frame) noexcept:
    return <const unsigned char *> PyMemoryView_GET_BUFFER(frame).buf


cdef inline unsigned char *c_writable_start(memoryview frame) noexcept:
    return NULL if PyMemoryView_GET_BUFFER(frame).readonly else <unsigned char *> PyMemoryView_GET_BUFFER(frame).buf


cdef inline const unsigned char *c_start_of(object buffer) except? NULL:
    cdef Py_buffer seen
    if PyBytes_CheckExact(buffer):
        return <const unsigned char *> PyBytes_AS_STRING(buffer)
    PyObject_GetBuffer(buffer, &seen, PyBUF_SIMPLE)
    # Whoever holds the buffer keeps its bytes where they are.
    PyBuffer_Release(&seen)
    return <const unsigned char *> seen.buf


cdef inline Py_ssize_t c_put_bytes(unsigned char *out, Py_ssize_t at, object source) except -2:
    cdef Py_buffer seen
    if PyBytes_CheckExact(source):
        return c_put_raw(out, at, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
    PyObject_GetBuffer(source, &seen, PyBUF_SIMPLE)
    at = c_put_raw(out, at, seen.buf, seen.len)
    PyBuffer_Release(&seen)
    return at
