# The types of `sampled_rate`, for compiled modules.

cimport cython

cdef double _WELL_BELOW


@cython.final
cdef class _Sample:
    cdef long long start_ms
    cdef long long last_ms
    cdef double value

    cdef object reset(self, long long now_ms)


@cython.final
cdef class SampledRate:
    cdef long long _windows
    cdef long long _window_ms
    cdef list _samples
    cdef long long _current
    cdef double _at_most

    @cython.locals(samples=list, sample=_Sample)
    cpdef object record(self, double value, long long now_ms)
    @cython.locals(samples=list, sample=_Sample)
    cdef _Sample _next(self, long long now_ms)
    @cython.locals(oldest_ms=cython.longlong, sample=_Sample)
    cdef object _purge(self, long long now_ms)
    @cython.locals(total=cython.double, sample=_Sample)
    cpdef double per_second(self, long long now_ms) except? -1
    @cython.locals(total=cython.double, sample=_Sample)
    cdef double _positive(self) except? -1
    @cython.locals(oldest_ms=cython.longlong, elapsed_ms=cython.longlong, missing=cython.longlong, sample=_Sample)
    cpdef Py_ssize_t elapsed_ms(self, long long now_ms) except? -1
    @cython.locals(rate=cython.double, wait_ms=cython.double)
    cpdef Py_ssize_t throttle_ms(self, double bound, long long now_ms) except? -1
