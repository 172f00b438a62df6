cimport cython


@cython.final
cdef class Turn:
    cdef readonly bint is_open
    cdef Py_ssize_t _depth
    cdef list _waiting

    cpdef object flush_later(self, object connection)
    cdef object _begin(self)
    @cython.locals(waiting=list)
    cdef object _end(self)
