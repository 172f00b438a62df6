# Numbers of replicas come from fields of at most 4 bytes; offsets are of 8, and C's where they are compared.

cimport cython
from tidelog.replication.follower_progress cimport FollowerProgress
from tidelog.storage.partition_log cimport PartitionLog

cdef object _NONE
cdef object _NOT_ENOUGH_REPLICAS_AFTER_APPEND


@cython.final
cdef class Leading:
    cdef public PartitionLog log
    cdef public object epoch_start_offset
    cdef public tuple isr
    cdef public dict followers
    cdef public Py_ssize_t min_in_sync
    cdef public tuple joining

    cpdef bint has_enough_in_sync(self) except -1
    cpdef object commit_error(self)
    @cython.locals(isr=tuple, joining=tuple, follower=FollowerProgress)
    cpdef long long replicated_up_to(self, long long end) except *
    cpdef bint has_committed(self, FollowerProgress follower) except -1
    @cython.locals(lowest=cython.longlong, follower=FollowerProgress)
    cpdef object low_watermark(self)


@cython.final
cdef class Following:
    cdef public PartitionLog log
    cdef readonly object leader
    cdef public object refusal


@cython.final
cdef class Offline:
    cdef readonly object error
    cdef readonly object reason
