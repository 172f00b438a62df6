# The types of `request_counts`, for compiled modules.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage

cdef long long _SUM_MAX
cdef tuple _BOUNDS


@cython.final
cdef class Times:
    cdef readonly list counts
    cdef long long _sum
    cdef object _carried

    @cython.locals(bounds=tuple, bound=cython.longlong, place=Py_ssize_t, end=Py_ssize_t, middle=Py_ssize_t)
    cpdef object observe(self, long long elapsed_ns, long long count)


cdef class RequestCounts:
    cdef readonly Times at_once
    cdef readonly Times local
    cdef readonly Times remote
    cdef readonly Times total
    cdef public long long request_bytes
    cdef public long long response_bytes
    cdef public long long waiting
    cdef object _errors
    cdef long long _none
    cdef object _count_errors

    cpdef object answered(self, long long elapsed_ns, long long request_bytes, long long response_bytes, object answer)
    cpdef object answered_later(
        self, long long local_ns, long long elapsed_ns, long long request_bytes, long long response_bytes, object answer)
    cpdef object unanswered(self, long long elapsed_ns, long long request_bytes)
    @cython.locals(typed=TypedMessage)
    cpdef object count_errors(self, object answer)
    cpdef object answered_together(
        self, long long count, long long elapsed_ns, long long request_bytes, long long response_bytes,
        long long without_error=*)
    cpdef object waited(
        self, long long local_ns, long long elapsed_ns, long long request_bytes, long long response_bytes, long long without_error=*)
