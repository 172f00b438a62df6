# The types of `active_shard`, for compiled modules.

cimport cython

from tidelog.coordination.deadlines cimport Deadlines
from tidelog.storage.checked_batches cimport CheckedBatch

cdef long long _NS_PER_MS


@cython.final
cdef class ActiveShard:
    cdef readonly object index
    cdef readonly object leader_epoch
    cdef readonly object shard
    cdef readonly bint is_dropped
    cdef object _host
    cdef object _partition
    cdef object _required_acks
    cdef bint _is_plain
    cdef object _timer
    cdef object _timer_ms
    cdef long long _looked_at
    cdef Deadlines _deadlines
    cdef object _clock_ms
    cdef object _monotonic_ns
    cdef long long _ahead_ms

    @cython.locals(now_ns=cython.longlong)
    cpdef long long now_ms(self) except *
    cpdef object carry_out(self, object decision, object refuse)
    @cython.locals(
        timestamp_ms=cython.longlong, count=cython.longlong, first_offset=cython.longlong, is_committed=bint, batch=bytearray,
        built=CheckedBatch)
    cdef object _append(self, object decision)
    cdef object _written(self, CheckedBatch batch, object rule)
