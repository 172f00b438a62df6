cimport cython

from tidelog.net.backlog cimport Backlog
from tidelog.net.output_queue cimport OutputQueue
from tidelog.net.stream cimport FrameStream
from tidelog.net.turn cimport Turn


@cython.final
cdef class AnswerSlot:
    cdef readonly Connection connection
    cdef object _parts

    cpdef object send(self, object parts)
    cpdef object send_at_once(self, object parts)
    cpdef object close_connection(self)


@cython.final
cdef class Connection(FrameStream):
    cdef object _handler
    cdef object _handle
    cdef object _frames_done
    cdef object _on_quiet
    cdef object _slots
    cdef long long _request_bytes_max
    cdef long long _unanswered_requests_max
    cdef long long _output_bytes_max
    cdef long long _parked_bytes
    cdef int _muted_for
    cdef object _on_closed
    cdef readonly object listener_name
    cdef readonly object connection_id
    cdef readonly object peer_address
    cdef readonly object host
    cdef readonly object local_address
    cdef public object principal
    cdef public object client_software
    cdef public object tls
    cdef public object throttle
    cdef public double idle_since_ms

    cpdef AnswerSlot expect_answer(self)
    @cython.locals(output=OutputQueue)
    cpdef object answer_with_frames(self, object frames)
    @cython.locals(output=OutputQueue)
    cdef object _answered(self, AnswerSlot slot, object parts, bint at_once)
    @cython.locals(output=OutputQueue)
    cdef object _tell_if_quiet(self)
    cpdef object mute(self, int reason=*)
    cpdef object unmute(self, int reason=*)


cdef Py_ssize_t _parts_bytes(object parts) except -1
