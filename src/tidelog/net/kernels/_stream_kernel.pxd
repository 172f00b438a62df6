# The types of `stream_kernel`, for its compiled twin: what is a C number, which class an attribute holds, what is called as a C
# function. A `cpdef` method is for Python as well; only final classes have them, since elsewhere each call would first look
# whether a subclass has another.

cimport cython

cdef Py_ssize_t _SENDFILE_BYTES_MIN
cdef Py_ssize_t _JOINED_BYTES_MAX
cdef Py_ssize_t _APART_BYTES_MIN
cdef Py_ssize_t _COPIED_BYTES_MAX
cdef Py_ssize_t _FLUSHED_BYTES_MAX
cdef Py_ssize_t _LARGE_OUTPUT_BYTES
cdef Py_ssize_t _FLUSHED_IN_SLICE_BYTES_MAX
cdef Py_ssize_t _WOULD_BLOCK
cdef Py_ssize_t _STRIDE_MAX
cdef Py_ssize_t _ANY_NUMBER
cdef int _MORE_FOLLOWS
cdef object _int32_at
cdef object _int32_bytes


@cython.final
cdef class FrameReader:
    cdef object _buffers
    cdef memoryview _view
    cdef memoryview _own
    cdef bint _is_aside
    cdef long long _frame_bytes_max
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef Py_ssize_t _taken_bytes
    cdef Py_ssize_t _wanted_bytes

    cpdef object buffer(self)
    @cython.locals(own=memoryview)
    cpdef object little_buffer(self, Py_ssize_t bytes_max)
    cpdef bint received(self, Py_ssize_t count) except -1
    @cython.locals(start=Py_ssize_t, available=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t)
    cpdef object take(self)
    @cython.locals(available=Py_ssize_t, size=Py_ssize_t)
    cpdef bint has_frame(self) except -1
    @cython.locals(available=Py_ssize_t, size=Py_ssize_t)
    cpdef bint has_several(self) except -1
    @cython.locals(start=Py_ssize_t, left_bytes=Py_ssize_t, own=memoryview)
    cpdef object put_aside(self)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, own=memoryview, left_bytes=Py_ssize_t, needed_bytes=Py_ssize_t)
    cpdef object settle(self)
    cpdef object release_idle(self)
    cpdef object close(self)
    @cython.locals(own=memoryview)
    cdef object _let_go(self)


cdef class SocketSender:
    cdef public int _descriptor
    cdef public bint is_held

    @cython.locals(sent=Py_ssize_t)
    cdef Py_ssize_t _send(self, object data, bint more_follows) except -2


@cython.final
cdef class _Remainder:
    cdef object file
    cdef Py_ssize_t position
    cdef Py_ssize_t count


@cython.final
cdef class OutputQueue:
    cdef object _channel
    cdef SocketSender _sender
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
    @cython.locals(sent=Py_ssize_t, budget_bytes=Py_ssize_t, region=_Remainder)
    cpdef bint flush(self, Py_ssize_t bytes_max=*) except -1
    cpdef object clear(self)
    @cython.locals(sender=SocketSender, sent=Py_ssize_t)
    cdef Py_ssize_t _send(self, object data, bint more_follows) except -2
    @cython.locals(tail=list)
    cdef list _new_tail(self)
    cdef bint _leaves_by_sendfile(self, _Remainder region) except -1
    @cython.locals(gathered=list, room_bytes=Py_ssize_t, region=_Remainder)
    cdef object _gather(self)
    @cython.locals(wanted=Py_ssize_t)
    cdef object _read_piece(self, _Remainder region)


cdef object _joined(list pieces)


@cython.final
cdef class Turn:
    cdef readonly bint is_open
    cdef Py_ssize_t _depth
    cdef list _waiting

    cpdef object flush_later(self, object connection)
    cdef object _begin(self)
    @cython.locals(waiting=list)
    cdef object _end(self)


cdef class StreamCore


@cython.final
cdef class Backlog:
    cdef object _loop
    cdef Turn _turn
    cdef object _clock_ns
    cdef object _queue
    cdef long long _requests_max
    cdef long long _elapsed_max_ns
    cdef Py_ssize_t _slice_requests_max
    cdef long long _bytes_max
    cdef readonly Py_ssize_t little_bytes
    cdef long long _requests
    cdef long long _elapsed_ns
    cdef Py_ssize_t _stride
    cdef readonly long long held_bytes
    cdef readonly bint is_full
    cdef readonly bint is_spent
    cdef bint _is_scheduled

    cdef long long _now_ns(self) except *
    cdef object _add(self, StreamCore connection)
    cdef object _hold(self, long long added_bytes)
    cdef object _charge(self, long long requests, long long elapsed_ns)
    cdef object _schedule(self)
    @cython.locals(turn=Turn, connection=StreamCore)
    cdef object _run_round(self)
    cdef object _begin_round(self)


cdef class StreamCore:
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
    cdef bint _is_queued
    cdef Py_ssize_t _held_bytes
    cdef bint _flush_noted
    cdef bint _waiting_for_channel

    cdef bint _frame(self, memoryview frame) except -1
    cdef object _read_done(self)
    cdef bint _is_full(self) except -1
    cdef object _output_moved(self)
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
    @cython.locals(backlog=Backlog)
    cdef object _resume_if_possible(self)
    @cython.locals(backlog=Backlog)
    cdef object _proceed(self)


@cython.final
cdef class PendingRequest:
    cdef readonly object parts
    cdef readonly object on_answer
    cdef readonly double deadline_s
    cdef long long correlation_id


cdef class AnswersCore(StreamCore):
    cdef object _unanswered
    cdef object _on_bug

    @cython.locals(pending=PendingRequest)
    cdef bint _frame(self, memoryview frame) except -1


@cython.final
cdef class AnswerSlot:
    cdef ConnectionCore _connection
    cdef object _parts

    cpdef object send(self, object parts)
    cpdef object send_at_once(self, object parts)


cdef class ConnectionCore(StreamCore):
    cdef object _handle
    cdef object _frames_done
    cdef public object _on_quiet
    cdef readonly object _slots
    cdef long long _unanswered_requests_max
    cdef long long _output_bytes_max
    cdef public long long _parked_bytes

    @cython.locals(output=OutputQueue)
    cdef object _answered(self, AnswerSlot slot, object parts, bint at_once)


cdef Py_ssize_t _parts_bytes(object parts) except -1
