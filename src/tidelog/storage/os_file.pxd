cimport cython


@cython.final
cdef class OsFile:
    cdef readonly str path
    cdef int _descriptor
    cdef bint _writable

    @cython.locals(wanted=cython.longlong, done=cython.longlong)
    cpdef object pwritev(self, object buffers, long long position)
