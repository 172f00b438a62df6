# Positions, sizes, offsets and timestamps are C's numbers: they come from headers, or from files of at most 2 GB.

cimport cython
from tidelog.storage.checked_batches cimport CheckedBatch

cdef long long _RELATIVE_OFFSET_MAX
cdef long long _UNKNOWN


@cython.final
cdef class Segment:
    cdef object _seams
    cdef object _open_segments
    cdef str _directory
    cdef str _suffix
    cdef public object _file
    cdef long long _created_ms
    cdef public bint _is_preallocated
    cdef long long _index_interval_bytes
    cdef readonly long long _reserve_at
    cdef readonly long long _index_entries_left
    cdef long long _bytes_since_index_entry
    cdef long long _first_timestamp
    cdef public long long _largest_timestamp
    cdef long long _largest_timestamp_offset
    cdef readonly long long roll_jitter_ms
    cdef readonly long long base_offset
    cdef readonly long long size_bytes
    cdef readonly object offset_index
    cdef readonly object time_index
    cdef readonly object transaction_index

    cpdef object open_file(self)
    @cython.locals(size_bytes=cython.longlong)
    cpdef bint must_roll(
        self,
        long long segment_bytes,
        long long roll_ms,
        long long gathered_bytes,
        long long incoming_bytes,
        long long last_offset,
        long long max_timestamp,
    ) except -1
    @cython.locals(
        position=cython.longlong,
        written=cython.longlong,
        largest=cython.longlong,
        unindexed=cython.longlong,
        last_offset=cython.longlong,
        batch=CheckedBatch,
    )
    cpdef object write(self, object buffers, list batches)
    @cython.locals(first=cython.longlong)
    cdef long long _waited_ms(self, long long max_timestamp) except *
