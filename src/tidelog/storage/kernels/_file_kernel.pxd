# The types of `file_kernel`, for its compiled twin.

cimport cython


cdef class OsFileCore:
    cdef readonly str path
    cdef public int _descriptor

    @cython.locals(wanted=cython.longlong, done=cython.longlong)
    cdef object _pwritev(self, object buffers, object position)
