cimport cython

from tidelog.net.socket_channel cimport SocketChannel

cdef Py_ssize_t _SENDFILE_BYTES_MIN
cdef Py_ssize_t _JOINED_BYTES_MAX
cdef Py_ssize_t _APART_BYTES_MIN
cdef Py_ssize_t _COPIED_BYTES_MAX
cdef Py_ssize_t _FLUSHED_BYTES_MAX
cdef Py_ssize_t _WOULD_BLOCK
cdef object _int32_bytes


@cython.final
cdef class _Remainder:
    cdef object file
    cdef Py_ssize_t position
    cdef Py_ssize_t count


@cython.final
cdef class OutputQueue:
    cdef object _channel
    cdef SocketChannel _sender
    cdef object _items
    cdef list _tail
    cdef Py_ssize_t _tail_bytes
    cdef readonly long long pending_bytes
    cdef readonly long long sent_bytes
    cdef readonly bint is_blocked

    @cython.locals(tail=list, size_list=list, size_index=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t)
    cpdef object push(self, object parts)
    @cython.locals(count=Py_ssize_t, tail=list)
    cpdef object push_frames(self, bytes frames)
    @cython.locals(count=Py_ssize_t, sent=Py_ssize_t, budget_bytes=Py_ssize_t, region=_Remainder)
    cpdef bint flush(self, Py_ssize_t bytes_max=*) except -1
    cpdef object clear(self)
    @cython.locals(sender=SocketChannel, sent=Py_ssize_t)
    cdef Py_ssize_t _send(self, object data, Py_ssize_t count, bint more_follows) except -2
    @cython.locals(tail=list)
    cdef list _new_tail(self)
    cdef bint _leaves_by_sendfile(self, _Remainder region) except -1
    @cython.locals(gathered=list, room_bytes=Py_ssize_t, region=_Remainder)
    cdef object _gather(self)
    @cython.locals(wanted=Py_ssize_t)
    cdef object _read_piece(self, _Remainder region)


cdef object _joined(list pieces)
