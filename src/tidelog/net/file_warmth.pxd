cimport cython

cdef Py_ssize_t _WARMED_BYTES_MAX


@cython.final
cdef class FileWarmth:
    cdef object _slow_work
    cdef object _on_warm
    cdef int _file
    cdef long long _end
    cdef readonly bint is_reading

    cpdef Py_ssize_t count(self, int descriptor, long long position, Py_ssize_t count) except -1
    cdef object _read_ahead(self, int descriptor, long long position, Py_ssize_t count)
