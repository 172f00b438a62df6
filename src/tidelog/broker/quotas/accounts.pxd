# The types of `accounts`, for compiled modules.

cimport cython

from tidelog.model.sampled_rate cimport SampledRate


@cython.final
cdef class Account:
    cdef long long _windows
    cdef long long _window_ms
    cdef SampledRate _rate
    cdef object _bucket
    cdef SampledRate _mutations
    cdef SampledRate _throttle_times
    cdef SampledRate _throttles
    cdef public object bound
    cdef public long long used_ms

    cdef SampledRate _sampled(self, long long now_ms)
    @cython.locals(rate=SampledRate)
    cpdef Py_ssize_t record(self, double value, long long now_ms) except? -1
    cpdef object record_unthrottled(self, double value, long long now_ms)
    cpdef object most_at_once(self)
    cdef object _tokens(self, long long now_ms)
