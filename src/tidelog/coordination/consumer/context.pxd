# The types of `context`, for compiled modules.

cimport cython

from tidelog.coordination.deadlines cimport Deadlines


@cython.final
cdef class GroupContext:
    cdef public object groups
    cdef public Deadlines deadlines
    cdef public object settings
    cdef public object random
    cdef public object topics
    cdef public object topics_version
    cdef public object hashes
    cdef public object fence

    cpdef object renew_session(self, object group_id, object member_id, object timeout_ms, object now_ms)
