# The types of `sessions`, for compiled modules.

cimport cython

from tidelog.coordination.classic.group cimport ClassicGroup
from tidelog.coordination.classic.member cimport ClassicMember
from tidelog.coordination.deadlines cimport Deadlines


@cython.final
cdef class Sessions:
    cdef Deadlines _deadlines
    cdef object _expire

    cpdef object renew(self, ClassicGroup group, ClassicMember member, object now_ms, object timeout_ms=*)
