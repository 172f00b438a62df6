# The types of `partitions`, for its compiled twin.

cimport cython
from tidelog.replication.waiting cimport Wakeups

cdef dict _NOTHING


@cython.final
cdef class Partitions:
    cdef readonly Wakeups wakeups
    cdef public object throttles
    cdef readonly object traffic
    cdef readonly dict _by_name
    cdef readonly dict _by_id
    cdef object _on_role
    cdef object _node_id
    cdef object _directories
    cdef object _clock
    cdef object _config_of
    cdef object _on_placed
    cdef object _image
    cdef object _later
    cdef long long _turn_left
    cdef object _turn_ends_ms
    cdef bint _is_put_off
    cdef dict _to_open
    cdef dict _to_delete
    cdef list _waiting_for_opened

    cpdef dict named(self, object topic)
    cpdef dict identified(self, object topic_id)
