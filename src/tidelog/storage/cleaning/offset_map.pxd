# The types of `offset_map`, for compiled modules.

cimport cython


@cython.final
cdef class OffsetMap:
    cdef unsigned long long *words
    cdef unsigned long long key0
    cdef unsigned long long key1
    cdef Py_ssize_t slots
    cdef readonly Py_ssize_t entries
    cdef readonly Py_ssize_t entries_max
    cdef public long long latest_offset
    cdef dict offsets
    cdef bytes salt

    cdef void put(
        self, const unsigned char *data, Py_ssize_t start, Py_ssize_t length, long long offset) noexcept nogil
    cdef long long last_offset(self, const unsigned char *data, Py_ssize_t start, Py_ssize_t length) noexcept nogil
    cdef unsigned long long *find(self, unsigned long long first, unsigned long long second) noexcept nogil
