# Offsets, epochs of brokers and times are fields of 8 bytes, and C's.

cimport cython


@cython.final
cdef class FetchClock:
    cdef public long long last_fetch_ms


@cython.final
cdef class FollowerProgress:
    cdef readonly long long log_end_offset
    cdef readonly long long log_start_offset
    cdef readonly long long broker_epoch
    cdef long long _caught_up_ms
    cdef long long _last_fetch_ms
    cdef long long _leader_end_at_last_fetch
    cdef FetchClock _clock

    cpdef object fetched(
        self,
        long long offset,
        long long log_start_offset,
        long long leader_log_end_offset,
        long long broker_epoch,
        long long now_ms,
    )
    cpdef object rest(self, FetchClock clock)
    @cython.locals(clock=FetchClock)
    cpdef object rouse(self)
