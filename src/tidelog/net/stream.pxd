cimport cython

from tidelog.net.backlog cimport Backlog, Waiting
from tidelog.net.frames cimport FrameReader
from tidelog.net.output_queue cimport OutputQueue
from tidelog.net.turn cimport Turn

cdef Py_ssize_t _FLUSHED_BYTES_MAX
cdef Py_ssize_t _LARGE_OUTPUT_BYTES
cdef Py_ssize_t _FLUSHED_IN_SLICE_BYTES_MAX
cdef Py_ssize_t _ANY_NUMBER


cdef class FrameStream(Waiting):
    cdef readonly object _loop
    cdef readonly Backlog _backlog
    cdef readonly Turn _turn
    cdef readonly object _slow_work
    cdef readonly FrameReader _reader
    cdef public object _transport
    cdef public object _channel
    cdef public OutputQueue _output
    cdef readonly long long bytes_in
    cdef public bint is_closed
    cdef public bint is_active
    cdef public bint _reading
    cdef public bint is_exempt
    cdef public bint _stalled
    cdef public bint _discarding
    cdef readonly bint _is_put_off
    cdef Py_ssize_t _held_bytes
    cdef bint _flush_noted
    cdef bint _waiting_for_channel

    cdef bint _frame(self, memoryview frame) except -1
    cdef object _read_done(self)
    cdef bint _is_full(self) except -1
    cdef object _output_moved(self)
    cdef object _opened(self)
    cdef object _closed(self, object error)
    cdef object _flush_soon(self)
    cdef object _flush(self)
    @cython.locals(
        output=OutputQueue,
        backlog=Backlog,
        bytes_max=Py_ssize_t,
        begun_ns=cython.longlong,
        before_bytes=cython.longlong,
        is_empty=bint,
    )
    cdef object _flush_output(self)
    cdef object _flush_in_backlog(self, Backlog backlog)
    @cython.locals(backlog=Backlog)
    cdef object _received(self, Py_ssize_t count)
    cdef object _take_frames_in_turn(self)
    @cython.locals(
        reader=FrameReader,
        backlog=Backlog,
        full=bint,
        cut=bint,
        put_off=bint,
        taken=Py_ssize_t,
        uncharged=Py_ssize_t,
        now_ns=cython.longlong,
        frame=memoryview,
    )
    cdef object _take_frames(self, Py_ssize_t requests_max, long long since_ns)
    cdef object _put_off(self, Backlog backlog)
    @cython.locals(backlog=Backlog, held_bytes=Py_ssize_t)
    cdef object _set_put_off(self, bint put_off)
    cdef object _read_more(self, bint wanted)
    @cython.locals(backlog=Backlog)
    cdef object _resume_if_possible(self)
    @cython.locals(backlog=Backlog)
    cdef object _proceed(self)
    cdef object _end(self, object error)
