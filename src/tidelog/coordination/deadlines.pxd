# Times stay Python's numbers: there is no limit to how far a time-out may lie ahead.

cimport cython


@cython.final
cdef class _Set:
    cdef readonly object at_ms
    cdef object heap_ms
    cdef long long number
    cdef readonly object action


@cython.final
cdef class Deadlines:
    cdef readonly dict _by_key
    cdef readonly list _heap
    cdef readonly long long number

    @cython.locals(known=_Set)
    cpdef object set(self, object key, object at_ms, object action)
    @cython.locals(known=_Set)
    cpdef bint move(self, object key, object at_ms) except -1
    cpdef bint cancel(self, object key) except -1
    @cython.locals(known=_Set)
    cpdef object take_due(self, object now_ms)
    cpdef object clear(self)
    @cython.locals(known=_Set)
    cdef bint _is_current(self, tuple entry) except -1
    cdef object _sweep(self)
