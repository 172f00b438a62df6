cimport cython

from tidelog.net.turn cimport Turn

cdef Py_ssize_t _STRIDE_MAX


cdef class Waiting:
    cdef bint _is_queued

    cdef object _proceed(self)


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
    cdef object _add(self, Waiting connection)
    cdef object _hold(self, long long added_bytes)
    cdef object _charge(self, long long requests, long long elapsed_ns)
    cdef object _schedule(self)
    @cython.locals(turn=Turn, connection=Waiting)
    cdef object _run_round(self)
    cdef object _begin_round(self)
