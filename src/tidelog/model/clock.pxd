cimport cython


@cython.locals(nanoseconds=cython.longlong)
cpdef long long system_now_ms() except -1
