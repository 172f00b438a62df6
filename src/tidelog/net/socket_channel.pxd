cimport cython

cdef Py_ssize_t _WOULD_BLOCK
cdef int _MORE_FOLLOWS


@cython.final
cdef class SocketChannel:
    cdef int _descriptor
    cdef bint _is_waited_for
    cdef object _sockets
    cdef object _transport
    cdef object _slow_work
    cdef object _writable
    cdef bint _warming
    cdef int _warm_file
    cdef long long _warm_end
    cdef readonly bint sends_files

    cdef Py_ssize_t _send(self, object data, bint more_follows) except -2
    cpdef Py_ssize_t send_file(self, int descriptor, long long position, Py_ssize_t count) except -2
    cdef Py_ssize_t _warm_count(self, object slow_work, int descriptor, long long position, Py_ssize_t count) except -1


@cython.locals(sent=cython.Py_ssize_t, failure=cython.int)
cdef Py_ssize_t _send_bytes(int descriptor, object data, int flags) except -2
