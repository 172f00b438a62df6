# Times stay Python's numbers: there is no limit to how far a time-out may lie ahead.

cimport cython

cdef object _NS_PER_MS


@cython.final
cdef class SharedTimer:
    cdef SharedTimers _owner
    cdef object _callback

    cpdef object cancel(self)


@cython.final
cdef class SharedTimers:
    cdef object _timers
    cdef object _on_failure
    cdef object _now_ns
    cdef readonly list _heap
    cdef long long _number
    cdef Py_ssize_t _cancelled
    cdef object _armed
    cdef object _armed_ns

    @cython.locals(timer=SharedTimer)
    cpdef object after(self, object delay_ms, object callback)
    @cython.locals(kept=list, timer=SharedTimer)
    cdef object _one_cancelled(self)
    cdef object _arm(self, object due_ns)
    @cython.locals(timer=SharedTimer)
    cpdef object _go_off(self)
    cdef object _arm_for_first(self)
