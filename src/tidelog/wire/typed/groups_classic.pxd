# The types of `groups_classic`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
cdef class HeartbeatRequest(TypedMessage):
    cdef public object group_id
    cdef public long long generation_id
    cdef public object member_id
    cdef public object group_instance_id

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
cdef class HeartbeatResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t count_errors(self, object errors) except -1
