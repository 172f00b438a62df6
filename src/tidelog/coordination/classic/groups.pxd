# The types of `groups`, for compiled modules.

cimport cython

from tidelog.coordination.classic.group cimport ClassicGroup
from tidelog.coordination.classic.sessions cimport Sessions
from tidelog.wire.typed.groups_classic cimport HeartbeatRequest


@cython.final
cdef class ClassicGroups:
    cdef object _groups
    cdef object _settings
    cdef object _rebalances
    cdef object _joining
    cdef object _syncing
    cdef object _leaving
    cdef Sessions _sessions

    @cython.locals(group=ClassicGroup)
    cpdef object heartbeat(self, HeartbeatRequest request, object now_ms)
