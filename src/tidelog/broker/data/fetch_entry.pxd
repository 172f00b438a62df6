# The types of `fetch_entry`, for its compiled twin.

cimport cython

from tidelog.replication.partition cimport Partition
from tidelog.wire.typed.fetch cimport FetchPartition


@cython.final
cdef class FetchEntry:
    cdef public object topic
    cdef public FetchPartition asked
    cdef public long long high_watermark
    cdef public long long log_start_offset
    cdef public Partition partition
    cdef public object error
    cdef public object result
    cdef public long long size_bytes
    cdef public long long rank
    cdef public bint is_noted
    cdef public bint is_linked
    cdef public bint stays_noted
    cdef public bint is_stale
    cdef long long _former_high_watermark
    cdef long long _former_log_start_offset
    cdef long long _former_rank

    cpdef object remember(self)
    cpdef object recall(self)
    cpdef bint knows(self, long long high_watermark, long long log_start_offset)
