cimport cython

from tidelog.net.stream cimport FrameStream

cdef object _int32_at


@cython.final
cdef class PendingRequest:
    cdef readonly object parts
    cdef readonly object on_answer
    cdef readonly double deadline_s
    cdef long long correlation_id


cdef class NodeStream(FrameStream):
    cdef object _title
    cdef object _unanswered
    cdef object _on_bug
    cdef object _on_closed
    cdef readonly object peer_address

    @cython.locals(pending=PendingRequest)
    cdef bint _frame(self, memoryview frame) except -1
