cimport cython

from tidelog.net.file_warmth cimport FileWarmth

cdef Py_ssize_t _WOULD_BLOCK
cdef int _MORE_FOLLOWS


@cython.final
cdef class SocketChannel:
    cdef int _descriptor
    cdef bint _is_waited_for
    cdef object _sockets
    cdef object _transport
    cdef object _writable
    cdef FileWarmth _warmth
    cdef readonly bint sends_files

    cdef Py_ssize_t _send(self, object data, bint more_follows) except -2
    @cython.locals(warmth=FileWarmth)
    cpdef Py_ssize_t send_file(self, int descriptor, long long position, Py_ssize_t count) except -2
    cdef object _stop_waiting(self)


@cython.locals(sent=cython.Py_ssize_t, failure=cython.int)
cdef Py_ssize_t _send_bytes(int descriptor, object data, int flags) except -2
